//! Hosts to which redirects lead. Each request to one that does not answer would take a connection of the host that redirects
//! for as long as a connection may take. Not here: which redirects are allowed (`shoal-http/src/redirect.rs`).

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::{Gate, Hosts, Rules};
use crate::error::{Class, Error, HostId, Result};

/// What is known of the hosts behind redirects.
#[derive(Debug)]
pub(crate) struct Targets(Hosts);

impl Targets {
    /// `timeout`: how long one may stay away.
    pub fn new(timeout: Duration) -> Targets {
        let hosts = Hosts::new("the server", Rules { max_retries: u32::MAX, timeout, many: true });
        hosts.listed_all(); // the host that redirects has answered: a silent one is to blame
        Targets(hosts)
    }
}

impl shoal_http::Targets for Targets {
    fn ask(&self, origin: &str) -> Result<bool> {
        let id = id(origin);
        match self.0.gate(id) {
            Gate::Open => Ok(false),
            Gate::Probe => Ok(true),
            // One that has answered is slow, and is asked all the same.
            Gate::Closed if self.0.has_answered(id) => Ok(false),
            Gate::Closed => Err(self.0.away(id)),
            Gate::Away => Err(self.0.away(id).behind_away()),
        }
    }

    fn answered(&self, origin: &str, probe: bool) {
        self.0.succeeded(id(origin), probe);
    }

    fn failed(&self, origin: &str, probe: bool, error: Error) -> Error {
        let id = id(origin);
        if error.class() != Class::Retry {
            self.0.unprobed(id);
            return error;
        }
        let error = error.host(id);
        self.0.failed(&error, 1, Duration::ZERO, probe);
        if self.0.look(id) == Gate::Away { error.behind_away() } else { error }
    }
}

fn id(origin: &str) -> HostId {
    HostId(xxh3_64(origin.as_bytes()))
}
