//! Apache Kafka in a container of its own, from the image that `ci/oracle image` builds. Nothing is
//! fetched: an engine without the image is as good as none.

use std::time::Duration;

use tokio::sync::Mutex;

use super::node::Node;
use crate::spec::Stop;
use crate::wire::{Access, Security};

/// The image, `NAME:TAG`.
pub(super) const IMAGE: &str = "kastellan/kafka:4.4.0";
/// How long a node in a container may take: it formats its folder first.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The lines of a container's log that an error tells.
const LAST_LINES: usize = 5;

/// A container that is removed by name, because what still waits for its server may hold the target
/// for longer than the run.
#[derive(Debug)]
pub(super) struct Container(Mutex<Option<engine::Running>>);

impl Container {
    /// Starts [`IMAGE`] and waits until Kafka answers.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] where no engine answers or it has no such image; [`Stop::Fail`] when the
    /// container does not start or Kafka does not answer.
    pub(super) async fn start() -> Result<(Self, Node), Stop> {
        let running = engine::Running::start(IMAGE).await?;
        let access = Access::new(running.bootstrap().to_owned(), Security::default());
        match Node::just_started(access, READY_WITHIN).await {
            Ok(node) => Ok((Self(Mutex::new(Some(running))), node)),
            Err(Stop::Fail(mut failure)) => {
                let last = running.last_lines(LAST_LINES).await;
                failure.reason = format!("{}; its last words: {last}", failure.reason);
                running.remove().await?;
                Err(Stop::Fail(failure))
            }
            Err(other) => {
                running.remove().await?;
                Err(other)
            }
        }
    }

    /// Stops and removes it; nothing when that is done already.
    ///
    /// # Errors
    ///
    /// An engine that does not do it.
    pub(super) async fn remove(&self) -> Result<(), Stop> {
        match self.0.lock().await.take() {
            Some(running) => running.remove().await,
            None => Ok(()),
        }
    }
}

#[cfg(feature = "containers")]
mod engine {
    use testcontainers::bollard::Docker;
    use testcontainers::bollard::errors::Error;
    use testcontainers::core::{ContainerPort, ImageExt as _};
    use testcontainers::runners::AsyncRunner as _;
    use testcontainers::{ContainerAsync, GenericImage};

    use super::Stop;
    use crate::cx::last_lines;
    use crate::target::free_port;

    /// Where Kafka listens in the container.
    const INSIDE: u16 = 9092;
    /// What an engine says of an image that it does not have.
    const NOT_FOUND: u16 = 404;

    #[derive(Debug)]
    pub(super) struct Running {
        bootstrap: String,
        container: ContainerAsync<GenericImage>,
    }

    impl Running {
        pub(super) async fn start(image: &str) -> Result<Self, Stop> {
            is_there(image).await?;
            let (name, tag) = image
                .rsplit_once(':')
                .ok_or_else(|| Stop::fail(format!("{image} is not NAME:TAG")))?;
            // Clients must find it under the address that it advertises, so the port is chosen first.
            let port = free_port().map_err(|error| Stop::fail(format!("no free port: {error}")))?;
            let bootstrap = format!("127.0.0.1:{port}");
            let container = GenericImage::new(name, tag)
                .with_mapped_port(port, ContainerPort::Tcp(INSIDE))
                .with_env_var("KAFKA_ADVERTISED", bootstrap.clone())
                .start()
                .await
                .map_err(|error| Stop::fail(format!("{image} does not start: {error}")))?;
            Ok(Self {
                bootstrap,
                container,
            })
        }

        pub(super) fn bootstrap(&self) -> &str {
            &self.bootstrap
        }

        /// The end of what it wrote, on one line.
        pub(super) async fn last_lines(&self, lines: usize) -> String {
            let mut text = Vec::new();
            for part in [
                self.container.stdout_to_vec().await,
                self.container.stderr_to_vec().await,
            ] {
                match part {
                    Ok(part) => text.extend(part),
                    Err(error) => return format!("its log cannot be read: {error}"),
                }
            }
            last_lines(&String::from_utf8_lossy(&text), lines).join(" | ")
        }

        pub(super) async fn remove(self) -> Result<(), Stop> {
            let id = self.container.id().to_owned();
            let removed = self.container.rm().await;
            removed.map_err(|error| Stop::fail(format!("container {id} is left behind: {error}")))
        }
    }

    /// Asks before anything is started, because starting fetches what is missing, and a stranger could
    /// have published an image of this name.
    async fn is_there(image: &str) -> Result<(), Stop> {
        let engine = async { Docker::connect_with_defaults()?.negotiate_version().await };
        let engine = engine.await.map_err(|error| {
            Stop::skip(format!(
                "no container engine answers at DOCKER_HOST or its default address: {error}"
            ))
        })?;
        match engine.inspect_image(image).await {
            Ok(_) => Ok(()),
            Err(Error::DockerResponseServerError {
                status_code: NOT_FOUND,
                ..
            }) => Err(Stop::skip(format!(
                "the container engine has no image {image}: `ci/oracle image` builds it"
            ))),
            Err(error) => Err(Stop::fail(format!(
                "the container engine does not tell of {image}: {error}"
            ))),
        }
    }
}

#[cfg(not(feature = "containers"))]
mod engine {
    use super::Stop;

    /// Never there: this program was built without a client of container engines.
    #[derive(Debug)]
    pub(super) enum Running {}

    #[expect(clippy::unused_async, reason = "the other half waits for the engine")]
    impl Running {
        pub(super) async fn start(_image: &str) -> Result<Self, Stop> {
            Err(Stop::skip(
                "this program speaks to no container engine; build it with \
                 `--features compat-matrix/containers`",
            ))
        }

        pub(super) const fn bootstrap(&self) -> &str {
            match *self {}
        }

        pub(super) async fn last_lines(&self, _lines: usize) -> String {
            match *self {}
        }

        pub(super) async fn remove(self) -> Result<(), Stop> {
            match self {}
        }
    }
}
