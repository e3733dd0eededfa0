//! The hand that breaks the world, step by step, and mends it.

use std::time::Duration;

use fake_queen::faults::{self, RetryAfter, Rule};
use kafka_wire::ApiKey;

use super::{MAX_LATENCY, MIN_LATENCY, World};
use crate::history::Mark;
use crate::machine::{Freeze, Machine};
use crate::schedule::{Effect, Fault, Hop, Link, Lost, Route, Server, Unsynced, api_named};

/// What ends by itself.
#[derive(Debug)]
pub(super) enum Undo {
    Thaw(Machine, Freeze),
    Prompt(ApiKey),
    Spare(Hop, Rule),
    Hasten(Link),
}

impl World {
    /// Does `fault`. What is not there, or can't happen to what is there, doesn't.
    pub(super) fn strike(&mut self, fault: &Fault) {
        self.trace
            .note_at(self.sim.elapsed(), "world", format_args!("! {fault}"));
        self.mark(Mark::Fault {
            what: fault.to_string(),
        });
        match *fault {
            Fault::Crash { node, unsynced } => self.crash(node, unsynced),
            Fault::Bounce { node, unsynced } => {
                self.crash(node, unsynced);
                self.start(node);
            }
            Fault::Restart { node } => self.tell_to_restart(node),
            Fault::Pause { node, for_ms } => {
                if let Some(machine) = self.machines.get(&node).cloned() {
                    self.pause(machine, for_ms);
                }
            }
            Fault::PauseClient { ref client, for_ms } => {
                let machine = self.clients.machine(client);
                self.pause(machine, for_ms);
            }
            Fault::Partition { link, lost } => self.partition(link, lost),
            Fault::Repair { link } => self.mend(link),
            Fault::Hold { link } => self.hold(link),
            Fault::Release { link } => {
                if self.held.contains(&link) {
                    self.mend(link);
                }
            }
            Fault::Latency {
                link,
                ms,
                jitter_ms,
                for_ms,
            } => {
                let shortest = Duration::from_millis(ms);
                self.travel(link, shortest, shortest + Duration::from_millis(jitter_ms));
                self.undo_after(for_ms, Undo::Hasten(link));
            }
            Fault::WallJump { node, by_ms } => {
                if let Some(machine) = self.machines.get(&node) {
                    machine.jump(by_ms);
                }
            }
            Fault::Upstream {
                hop,
                route,
                skip,
                count,
                for_ms,
                effect,
            } => {
                let rule = rule(route, skip, count, effect);
                self.faults(hop).add(rule.clone());
                if let Some(for_ms) = for_ms {
                    self.undo_after(for_ms, Undo::Spare(hop, rule));
                }
            }
            Fault::Revoke { key } => self.tell(self.keys.revoke(key)),
            Fault::Expire { key, in_ms } => {
                let now = self.sim.elapsed();
                self.tell(self.keys.expire(key, now, in_ms));
            }
            Fault::Narrow { key, scope } => self.tell(self.keys.narrow(key, scope)),
            Fault::Rotate { key, overlap_ms } => {
                let now = self.sim.elapsed();
                self.tell(self.keys.rotate(key, now, overlap_ms));
            }
            Fault::DelayApi {
                ref api,
                ms,
                for_ms,
            } => {
                if let Some(api) = api_named(api) {
                    self.late.delay(api, Duration::from_millis(ms));
                    self.undo_after(for_ms, Undo::Prompt(api));
                }
            }
        }
    }

    fn tell(&self, marks: Vec<Mark>) {
        for mark in marks {
            self.mark(mark);
        }
    }

    fn undo_after(&mut self, for_ms: u64, undo: Undo) {
        self.undone_count += 1;
        let at = self.sim.elapsed() + Duration::from_millis(for_ms);
        self.undone.insert((at, self.undone_count), undo);
    }

    /// Ends what has lasted until `now`.
    pub(super) fn undo_until(&mut self, now: Duration) {
        while let Some(first) = self.undone.first_entry()
            && first.key().0 <= now
        {
            let undo = first.remove();
            self.undo(undo);
        }
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Thaw(machine, freeze) => machine.thaw(freeze),
            Undo::Prompt(api) => self.late.prompt(api),
            Undo::Spare(hop, rule) => self.faults(hop).remove(&rule),
            Undo::Hasten(link) => self.travel(link, MIN_LATENCY, MAX_LATENCY),
        }
    }

    fn faults(&self, hop: Hop) -> &faults::Faults {
        match hop {
            Hop::Relay => &self.relay_faults,
            Hop::Queen => &self.queen_faults,
        }
    }

    fn runs(&mut self, server: Server) -> bool {
        self.servers.contains(&server) && self.sim.is_host_running(server.node().name())
    }

    fn crash(&mut self, server: Server, unsynced: Unsynced) {
        if !self.runs(server) {
            return;
        }
        if server == Server::Queen {
            // First: a program that is torn down writes its last words, which neither a power cut
            // nor a kill lets it.
            match unsynced {
                Unsynced::Lost => self.disk.cut_power(&mut self.power),
                Unsynced::Kept => self.disk.kill(),
            }
        }
        if let Some(machine) = self.machines.get(&server) {
            machine.dies();
        }
        self.sim.crash(server.node().name());
        self.mark(Mark::Crash {
            node: server.node().name().into(),
        });
    }

    fn start(&mut self, server: Server) {
        if self.servers.contains(&server) {
            self.sim.bounce(server.node().name());
            self.mark(Mark::Start {
                node: server.node().name().into(),
            });
        }
    }

    fn tell_to_restart(&mut self, server: Server) {
        if self.runs(server)
            && let Some(told) = self.told.get(&server)
        {
            // Not kept for later: a facade that is only now starting, or stopping, doesn't hear it.
            told.notify_waiters();
        }
    }

    fn pause(&mut self, machine: Machine, for_ms: u64) {
        let freeze = machine.freeze();
        self.undo_after(for_ms, Undo::Thaw(machine, freeze));
    }

    fn partition(&mut self, link: Link, lost: Lost) {
        if !self.links.contains(&link) {
            return;
        }
        // From any state: what is lost is what this step says, nothing more.
        self.mend(link);
        let (caller, answerer) = link.ends();
        let (caller, answerer) = (caller.name(), answerer.name());
        match lost {
            Lost::Both => self.sim.partition(caller, answerer),
            Lost::Requests => self.sim.partition_oneway(caller, answerer),
            Lost::Answers => self.sim.partition_oneway(answerer, caller),
        }
    }

    fn hold(&mut self, link: Link) {
        if self.links.contains(&link) {
            let (caller, answerer) = link.ends();
            self.sim.hold(caller.name(), answerer.name());
            self.held.insert(link);
        }
    }

    /// A link is whole, from any state; what it held arrives.
    fn mend(&mut self, link: Link) {
        if self.links.contains(&link) {
            let (caller, answerer) = link.ends();
            self.sim.release(caller.name(), answerer.name());
            self.held.remove(&link);
        }
    }

    fn travel(&mut self, link: Link, shortest: Duration, longest: Duration) {
        if self.links.contains(&link) {
            let (caller, answerer) = link.ends();
            let (caller, answerer) = (caller.name(), answerer.name());
            self.sim.set_link_latency(caller, answerer, shortest);
            self.sim
                .set_link_max_message_latency(caller, answerer, longest);
        }
    }

    /// Everything is mended: what lasts ends, links are whole, machines run.
    pub(super) fn heal(&mut self) {
        self.trace
            .note_at(self.sim.elapsed(), "world", format_args!("heals"));
        self.mark(Mark::Heal);
        for (_, undo) in std::mem::take(&mut self.undone) {
            self.undo(undo);
        }
        self.tell(self.keys.mend());
        self.queen_faults.clear();
        self.relay_faults.clear();
        for link in self.links.clone() {
            self.mend(link);
        }
        for server in self.servers.clone() {
            if !self.runs(server) {
                self.start(server);
            }
        }
        self.healed.send_replace(true);
    }
}

fn rule(route: Route, skip: u64, count: Option<u64>, effect: Effect) -> Rule {
    let effect = match effect {
        Effect::Status {
            code,
            retry_after_s,
        } => faults::Effect::Status {
            code,
            retry_after: retry_after_s.map(RetryAfter::Seconds),
            body: None,
        },
        Effect::CutBefore => faults::Effect::DropBefore,
        Effect::CutAfter => faults::Effect::DropAfter,
        Effect::Slow { ms } => faults::Effect::Delay { ms },
        Effect::StallAfter { ms } => faults::Effect::DelayAfter { ms },
    };
    Rule {
        route: (route != Route::Any).then(|| route.name().to_owned()),
        body_contains: None,
        skip,
        count,
        effect,
    }
}
