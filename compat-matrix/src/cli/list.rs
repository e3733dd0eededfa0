//! `list`: one line for each client and for each check, without running any.

use std::io::Write as _;

use super::run::{ended, no_target, select, start};
use super::{ALL_EXPECTED, Selection, usage};
use crate::drivers::Client;
use crate::spec::Spec;
use crate::target::Bounds;

pub(super) async fn list(selection: &Selection) -> u8 {
    let kind = match selection.kind() {
        Ok(kind) => kind,
        Err(message) => return usage(&message),
    };
    let catalogue = match selection.clients() {
        Ok(catalogue) => catalogue,
        Err(error) => return usage(&error.to_string()),
    };
    // Which checks there are depends on what the target advertises.
    let (target, advertised) = match start(kind, Bounds::default()).await {
        Ok(started) => started,
        Err(why) => return no_target(&why),
    };
    let clients = catalogue.ready().await;
    let specs = select(selection, target.kind(), &clients, &advertised);
    // Who stops reading (`| head`) has read enough.
    let _ = print(&clients, &specs);
    ended(&target, ALL_EXPECTED).await
}

fn print(clients: &[Client], specs: &[Spec]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for client in clients {
        let state = client.driver.as_ref().err().map_or("ready", String::as_str);
        writeln!(out, "client/{}\t{}\t{state}", client.id, client.label)?;
    }
    for spec in specs {
        writeln!(out, "{}\t{}\t{}", spec.id, spec.client, spec.title)?;
    }
    Ok(())
}
