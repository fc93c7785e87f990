"""What schemathesis cannot know from docs/openapi.yaml: names that meet, so that calls reach a pool that is
there, its few workers, and leases that their holder may speak for. One of eight is left as it was drawn."""

import schemathesis

WORKERS = ["w1", "w2", "w3"]


def meets(text):
    return sum(text.encode("utf-8", "replace")) % 8 != 0


def drawn(text, choices):
    return choices[sum(text.encode("utf-8", "replace")) % len(choices)]


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
    if isinstance(pool, str) and meets(pool):
        path_parameters["pool"] = "demo"
    if isinstance(worker, str) and meets(worker):
        path_parameters["worker"] = drawn(worker, WORKERS)
    return path_parameters


@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict):
        return body
    pool, holder, address = body.get("pool"), body.get("holder"), body.get("address")
    if isinstance(address, str) and meets(address):
        body["address"] = "10.0.0.1:80"
    if isinstance(pool, str) and meets(pool):
        body["pool"] = "demo"
    if isinstance(holder, str) and "/" in holder and meets(holder):
        body["holder"] = holder = holder_of(holder)
        told = [body, *listed(body, "releases"), *listed(body, "observations")]
        for part in told:
            if isinstance(part.get("lease"), str):
                part["lease"] = lease_of(holder, part["lease"])
        for place in listed(body, "leases"):
            if isinstance(place.get("worker"), str):
                place["worker"] = drawn(place["worker"], WORKERS)
                place["address"] = "10.0.0.1:80"
    return body


def listed(body, name):
    parts = body.get(name)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
