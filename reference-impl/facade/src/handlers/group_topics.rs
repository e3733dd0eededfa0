//! What the offset APIs share: whose offsets, and which topics exist.

use crate::catalogue::Lookup;
use crate::context::Context;
use crate::offsets::Tenant;

/// The tenant of a connection, for calls of its offsets.
pub(super) fn offsets_tenant(cx: &Context) -> Tenant {
    Tenant {
        scope: cx.session.scope.clone(),
        credential: cx.session.credential.clone(),
    }
}

/// For each name, whether offsets of the topic may be stored: it exists, or that can't be told now.
/// A name that the cached list lacks is looked up afresh, since another process may just have
/// created the topic.
pub(super) async fn known_topics(cx: &Context, names: &[&str]) -> Vec<bool> {
    let (catalogue, session) = (&cx.node.catalogue, &cx.session);
    let known = |lookup: &Lookup| !matches!(lookup, Lookup::Absent | Lookup::Illegal(_));
    let view = catalogue.view(&session.scope, &session.credential).await;
    let lookups: Vec<Lookup> = names.iter().map(|name| view.lookup(name)).collect();
    if !lookups
        .iter()
        .any(|lookup| matches!(lookup, Lookup::Absent))
    {
        return lookups.iter().map(known).collect();
    }
    match catalogue
        .fresh_view(&session.scope, &session.credential)
        .await
    {
        Ok(view) => names.iter().map(|name| known(&view.lookup(name))).collect(),
        Err(_) => lookups
            .iter()
            .map(|lookup| !matches!(lookup, Lookup::Illegal(_)))
            .collect(),
    }
}
