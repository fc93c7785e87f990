"""What schemathesis cannot know from docs/openapi.yaml: names that meet, so that calls reach a pool that is
there, its few workers, and leases that their holder may speak for. One of eight is left as it was drawn."""

import re

import schemathesis

WORKERS = ["w1", "w2", "w3"]
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
HOLDER = re.compile(NAME.pattern + "/[0-9a-f]{32}")
LEASE = re.compile(r"[0-9a-f]{32}\.(0|[1-9][0-9]{0,15})")
ADDRESS = re.compile(r"[0-9.]+:[0-9]+|\[.*\]:[0-9]+")


def meets(text, shape):
    """What was drawn to be wrong stays so: it is to be refused."""
    if not isinstance(text, str) or not shape.fullmatch(text):
        return False
    return sum(text.encode()) % 8 != 0


def drawn(text, choices):
    return choices[sum(text.encode()) % len(choices)]


def holder_of(text):
    """`proxy/epoch`, one of three."""
    return "envoy/" + drawn(text, "123") * 32


def lease_of(holder, lease):
    """The same number, in the name of the holder."""
    return holder.split("/")[1] + "." + lease.split(".")[-1]


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if not path_parameters:
        return path_parameters
    pool, worker = path_parameters.get("pool"), path_parameters.get("worker")
    if meets(pool, NAME):
        path_parameters["pool"] = "demo"
    if meets(worker, NAME):
        path_parameters["worker"] = drawn(worker, WORKERS)
    return path_parameters


@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict):
        return body
    pool, holder, address = body.get("pool"), body.get("holder"), body.get("address")
    if meets(address, ADDRESS):
        body["address"] = "10.0.0.1:80"
    if meets(pool, NAME):
        body["pool"] = "demo"
    if meets(holder, HOLDER):
        body["holder"] = holder = holder_of(holder)
        told = [body, *listed(body, "releases"), *listed(body, "observations")]
        for part in told:
            if isinstance(part.get("lease"), str) and LEASE.fullmatch(part["lease"]):
                part["lease"] = lease_of(holder, part["lease"])
        for place in listed(body, "leases"):
            if meets(place.get("worker"), NAME):
                place["worker"] = drawn(place["worker"], WORKERS)
            if meets(place.get("address"), ADDRESS):
                place["address"] = "10.0.0.1:80"
    return body


def listed(body, name):
    parts = body.get(name)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


@schemathesis.serializer("application/grpc")
def as_it_is(_context, value):
    """A line is no JSON, and what is drawn for it no message: it is to be refused."""
    return value if isinstance(value, bytes) else str(value).encode()
