//! One call of a function.

use super::fitness::Server;
use super::trouble::is_unknown_function;
use crate::library::Library;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use std::time::Duration;

/// A call, wherever its keys are.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) library: &'a Library,
    pub(crate) verb: &'a str,
    /// All of one slot; at least one among the first. In two parts, of which the caller has one at hand.
    pub(crate) keys: [&'a [String]; 2],
    pub(crate) args: &'a [String],
    pub(crate) purpose: Purpose,
}

/// What is trusted to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A new lease: not to one that may forget it, and its replicas may have to know of it.
    Lease,
    /// The same, and replicas do not matter.
    Count,
    /// Nothing new.
    Other,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) words: Vec<String>,
    /// How many replicas have what was written, where that was asked for.
    pub(crate) replicas: Option<u32>,
}

/// What is said around a call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner {
    /// The slot is on its way to this server, and it is to answer already.
    pub(super) asking: bool,
    /// Answer when so many replicas have it, or after this time.
    pub(super) wait: Option<(u32, Duration)>,
}

impl Exchange<'_> {
    pub(super) fn key(&self) -> &str {
        let [keys, _] = self.keys;
        keys.first().map_or("", String::as_str)
    }

    /// Calls the function; a server that does not have the library, being new or having lost it, gets it
    /// first.
    pub(super) async fn run(
        &self,
        mut connection: MultiplexedConnection,
        server: &Server,
        manner: Manner,
    ) -> RedisResult<Reply> {
        let [first, rest] = self.keys;
        let mut call = redis::cmd("FCALL");
        call.arg(self.library.function(self.verb))
            .arg(first.len() + rest.len())
            .arg(first)
            .arg(rest)
            .arg(self.args)
            .arg(&*server.run_id); // always the last: see lua/lib/keys.lua
        match manner.send(&call, &mut connection).await {
            Err(error) if is_unknown_function(&error) => {
                let mut load = redis::cmd("FUNCTION");
                load.arg("LOAD").arg("REPLACE").arg(self.library.text());
                load.exec_async(&mut connection).await?;
                manner.send(&call, &mut connection).await
            }
            result => result,
        }
    }
}

impl Manner {
    async fn send(self, call: &Cmd, connection: &mut MultiplexedConnection) -> RedisResult<Reply> {
        if !self.asking && self.wait.is_none() {
            let words = call.query_async(connection).await?;
            return Ok(Reply {
                words,
                replicas: None,
            });
        }
        // In one piece, so that nobody else's call comes between.
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        if self.asking {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(call.clone());
        if let Some((replicas, within)) = self.wait {
            pipeline
                .cmd("WAIT")
                .arg(replicas)
                .arg(within.as_millis().max(1) as u64); // 0 would be for ever
        }
        let answers: Vec<RedisResult<Value>> = pipeline.query_async(connection).await?;
        let mut answers = answers.into_iter().skip(usize::from(self.asking));
        let words = answers.next().unwrap_or(Ok(Value::Nil))?;
        // The function ran, whatever became of the wait: nobody is known to have it.
        let replicas = answers.next().map(|answer| {
            let count = answer.and_then(|value| Ok(redis::from_redis_value(value)?));
            count.unwrap_or_else(|error: RedisError| {
                tracing::warn!(%error, "no answer to WAIT; may its user type it? see `berth acl`");
                0
            })
        });
        Ok(Reply {
            words: redis::from_redis_value(words)?,
            replicas,
        })
    }
}
