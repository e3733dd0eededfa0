//! `GET /`: a page that shows what this Queen holds: queues, the lanes of one, groups with their
//! lag, KV rows. It reads and changes nothing, loads nothing from anywhere, and shows a bounded
//! number of rows at a time however many there are.

pub mod html;
mod page;
mod view;

use crate::http::reply::Reply;
use crate::routes::Call;

/// Answers.
pub fn handle(call: &Call<'_>) -> Reply {
    let asked = view::Asked::of(call);
    let view = view::View::gather(call, &asked);
    Reply::page(page::render(&view, &asked))
}
