use std::fmt;

/// What happened, line by line. Written only when somebody will read it.
#[derive(Debug, Default)]
pub(crate) struct History {
    on: bool,
    lines: Vec<String>,
}

impl History {
    pub(crate) fn new(on: bool) -> Self {
        Self {
            on,
            lines: Vec::new(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn write(
        &mut self,
        now_us: u64,
        actor: impl fmt::Display,
        event: impl fmt::Display,
    ) {
        let seconds = now_us / 1_000_000;
        let us = now_us % 1_000_000;
        self.lines
            .push(format!("{seconds:3}.{us:06}  {actor:<12} {event}"));
    }

    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// A line of history; its words are put together only when they are wanted.
macro_rules! tell {
    ($world:expr, $actor:expr, $($words:tt)*) => {
        if $world.history.is_on() {
            let (actor, now_us) = ($actor.to_string(), $world.now_us);
            let event = format!($($words)*);
            $world.history.write(now_us, actor, event);
        }
    };
}
pub(crate) use tell;
