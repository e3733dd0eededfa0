//! Tests over HTTP, through the same pipe that embeds a Queen.

mod client;
mod smoke;
