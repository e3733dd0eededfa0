//! Who may what: nothing for a revoked credential past its deadline, nothing of another tenant,
//! everything for the others; and an audit that tells all of it once, in order.

use std::collections::BTreeMap;

use super::index::Index;
use super::{Anomaly, Verdict};
use crate::event::{Event, Mark, Promise};
use crate::value::Name;

/// What a credential may do no longer.
struct Revoked<'h> {
    entry: usize,
    /// What is asked until then may be served.
    until_ms: u64,
    /// Nothing in it is everything.
    actions: &'h [Name],
}

/// The audit's record of a deed: the entry, principal, action and resource.
type Audited<'h> = (usize, (&'h Name, &'h Name, &'h Name));

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Verdict>) {
    let mut revoked: BTreeMap<&Name, Vec<Revoked<'_>>> = BTreeMap::new();
    let mut owners: BTreeMap<&Name, (usize, &Name)> = BTreeMap::new();
    let mut audit: BTreeMap<u64, Vec<Audited<'_>>> = BTreeMap::new();
    let mut sequence: Option<(u64, usize)> = None;
    let mut read = None;
    for (at, who, event) in index.events() {
        match event {
            Event::Mark(Mark::Revoke {
                principal,
                within_ms,
                actions,
            }) => revoked.entry(principal).or_default().push(Revoked {
                entry: at,
                until_ms: index.at_ms(at) + within_ms,
                actions,
            }),
            Event::Mark(Mark::Grant { principal }) => {
                revoked.remove(principal);
            }
            Event::Mark(Mark::Owns { tenant, resource }) => {
                owners.insert(resource, (at, tenant));
            }
            Event::Served {
                principal,
                tenant,
                action,
                resource,
                asked_ms,
                ..
            } => {
                let asked_ms = asked_ms.unwrap_or(index.at_ms(at));
                let mut against = revoked.get(principal).into_iter().flatten();
                let late = against.find(|one| {
                    let meant = one.actions.is_empty() || one.actions.contains(action);
                    meant && asked_ms > one.until_ms
                });
                if let Some(Revoked { entry, .. }) = late {
                    let what =
                        format!("{principal} was served {action} on {resource} after its end");
                    found.push(Verdict::new(Anomaly::ServedRevoked, [*entry, at], what));
                }
                let foreign = owners.get(resource);
                if let Some((by, owner)) = foreign.filter(|(_, owner)| *owner != tenant) {
                    let what = format!("{principal} of {tenant} was served {resource} of {owner}");
                    found.push(Verdict::new(Anomaly::TenantLeak, [*by, at], what));
                }
            }
            Event::Audit {
                sequence: number,
                deed,
                principal,
                action,
                resource,
            } => {
                if let Some((before, entry)) = sequence
                    && *number != before + 1
                {
                    let what = format!("audit record {number} stands behind {before}");
                    found.push(Verdict::new(Anomaly::AuditGap, [entry, at], what));
                }
                sequence = Some((*number, at));
                let of = audit.entry(*deed).or_default();
                of.push((at, (principal, action, resource)));
            }
            Event::Closed { what, .. } if index.promised(who, Promise::Undisturbed) => {
                let what = format!("{who} lost a connection: {what}");
                found.push(Verdict::new(Anomaly::Disturbed, [at], what));
            }
            Event::AuditEnd => read = Some(at),
            _ => {}
        }
    }
    let Some(read) = read else {
        return;
    };
    for (at, _, event) in index.events() {
        let Event::Served {
            deed,
            principal,
            action,
            resource,
            ..
        } = event
        else {
            continue;
        };
        let told = audit.remove(deed).unwrap_or_default();
        let deed = (principal, action, resource);
        let what = format!("{action} of {principal} on {resource}");
        match told[..] {
            [] => {
                let what = format!("{what} is not in the audit");
                found.push(Verdict::new(Anomaly::AuditGap, [at, read], what));
            }
            [(_, told)] if told == deed => {}
            [(entry, _)] => {
                let what = format!("{what} is in the audit as something else");
                found.push(Verdict::new(Anomaly::AuditGap, [at, entry], what));
            }
            [(one, _), (other, _), ..] => {
                let what = format!("{what} is in the audit twice");
                found.push(Verdict::new(Anomaly::AuditGap, [at, one, other], what));
            }
        }
    }
    for (deed, told) in audit {
        let what = format!("the audit tells of deed {deed}, which nobody did");
        let proof = told.iter().map(|(entry, _)| *entry);
        found.push(Verdict::new(Anomaly::AuditGap, proof, what));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Story;
    use crate::event::{Event, Mark, Promise};

    fn served(story: &mut Story, deed: u64, tenant: &str) {
        let event = Event::Served {
            deed,
            principal: "ann".into(),
            tenant: tenant.into(),
            action: "Fetch".into(),
            resource: "a.orders".into(),
            asked_ms: None,
        };
        story.event("door", event);
    }

    fn audit(story: &mut Story, sequence: u64, deed: u64, action: &str) {
        let event = Event::Audit {
            sequence,
            deed,
            principal: "ann".into(),
            action: action.into(),
            resource: "a.orders".into(),
        };
        story.event("audit", event);
    }

    #[test]
    fn a_revoked_credential_is_served_until_its_deadline() {
        let mut story = Story::acknowledged();
        let revoke = Mark::Revoke {
            principal: "ann".into(),
            within_ms: 100,
            actions: Vec::new(),
        };
        story.event("world", Event::Mark(revoke));
        story.wait(100);
        served(&mut story, 1, "a");
        assert!(story.names().is_empty());
        story.wait(1);
        let mut again = story.clone();
        served(&mut story, 2, "a");
        assert_eq!(story.names(), ["served-revoked"]);
        let principal = "ann".into();
        again.event("world", Event::Mark(Mark::Grant { principal }));
        served(&mut again, 2, "a");
        assert!(again.names().is_empty());
    }

    #[test]
    fn what_was_asked_before_the_end_may_come_after_it() {
        let mut story = Story::acknowledged();
        story.wait(50);
        let revoke = Mark::Revoke {
            principal: "ann".into(),
            within_ms: 0,
            actions: Vec::new(),
        };
        story.event("world", Event::Mark(revoke));
        story.wait(50);
        let served = |asked_ms| Event::Served {
            deed: asked_ms,
            principal: "ann".into(),
            tenant: "a".into(),
            action: "Produce".into(),
            resource: "a.orders".into(),
            asked_ms: Some(asked_ms),
        };
        story.event("door", served(50));
        assert!(story.names().is_empty());
        story.event("door", served(51));
        assert_eq!(story.names(), ["served-revoked"]);
    }

    #[test]
    fn a_narrowed_credential_is_served_what_it_has_left() {
        let mut story = Story::acknowledged();
        let revoke = |action: &str, within_ms| {
            Event::Mark(Mark::Revoke {
                principal: "ann".into(),
                within_ms,
                actions: vec![action.into()],
            })
        };
        story.event("world", revoke("Produce", 0));
        story.wait(10);
        served(&mut story, 1, "a");
        assert!(story.names().is_empty(), "a Fetch");
        // The first end counts, whatever comes later.
        story.event("world", revoke("Fetch", 5));
        story.event("world", revoke("Fetch", 500));
        story.wait(6);
        served(&mut story, 2, "a");
        assert_eq!(story.names(), ["served-revoked"]);
    }

    #[test]
    fn who_is_to_be_left_alone_keeps_its_connections() {
        let closed = |who: &str, promises: &[Promise]| {
            let mut story = Story::acknowledged();
            story.promise(who, promises.iter().copied());
            let (connection, what) = (1, "closed".to_owned());
            story.event(who, Event::Closed { connection, what });
            story.names()
        };
        assert_eq!(closed("bob", &[Promise::Undisturbed]), ["disturbed"]);
        assert!(closed("bob", &[Promise::Once]).is_empty());
    }

    #[test]
    fn a_tenant_is_served_its_own() {
        let mut story = Story::acknowledged();
        let owns = Mark::Owns {
            tenant: "a".into(),
            resource: "a.orders".into(),
        };
        story.event("world", Event::Mark(owns));
        served(&mut story, 1, "a");
        assert!(story.names().is_empty());
        served(&mut story, 2, "b");
        assert_eq!(story.names(), ["tenant-leak"]);
    }

    #[test]
    fn the_audit_tells_every_deed_once_in_order() {
        let told = |records: &[(u64, u64, &str)]| {
            let mut story = Story::acknowledged();
            served(&mut story, 1, "a");
            served(&mut story, 2, "a");
            for (sequence, deed, action) in records {
                audit(&mut story, *sequence, *deed, action);
            }
            let unread = story.names();
            story.event("audit", Event::AuditEnd);
            (unread, story.names())
        };
        let fine = told(&[(7, 1, "Fetch"), (8, 2, "Fetch")]);
        assert_eq!(fine, (vec![], vec![]));
        assert_eq!(told(&[(7, 1, "Fetch")]), (vec![], vec!["audit-gap"]));
        assert_eq!(told(&[(7, 1, "Fetch"), (9, 2, "Fetch")]).1, ["audit-gap"]);
        assert_eq!(told(&[(7, 1, "Fetch"), (8, 2, "Produce")]).1, ["audit-gap"]);
        let twice = [(7, 1, "Fetch"), (8, 2, "Fetch"), (9, 2, "Fetch")];
        assert_eq!(told(&twice).1, ["audit-gap"]);
        let foreign = [(7, 1, "Fetch"), (8, 2, "Fetch"), (9, 3, "Fetch")];
        assert_eq!(told(&foreign).1, ["audit-gap"]);
    }
}
