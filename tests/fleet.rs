//! A fleet in health and with its ordinary troubles; what breaks it is in faults.rs.

mod fleet {
    mod admit;
    mod affinity;
    mod capabilities;
    mod check;
    mod containers;
    mod description;
    mod doors;
    mod drain;
    mod ejection;
    mod lifetime;
    mod limits;
    mod line;
    mod lua_filter;
    mod metrics;
    mod observability;
    mod outage;
    mod question;
    mod release;
    mod spoofing;
    mod start;
    mod switch;
}
