//! What a node of ours has around itself, which makes the kinds of target.

use std::path::Path;

use host::Secret;

use super::guard::Guard;
use super::queen::QueenProcess;
use super::tenants::Tenants;
use crate::spec::Stop;
use crate::wire::Security;

/// One target's.
#[derive(Debug)]
pub(super) enum Outfit {
    /// An embedded Queen, and everybody is welcome.
    Bare,
    /// TLS, SASL, and a Queen that asks for tokens.
    Guarded(Guard),
    /// SASL, and the Queen of a cell behind its proxy.
    Cell(Tenants),
}

/// What stands behind a node, and the settings that lead the node there.
#[derive(Debug, Default)]
pub(super) struct Equipment {
    pub(super) queen: Option<QueenProcess>,
    pub(super) settings: Vec<(String, String)>,
    /// What the node's clients need.
    pub(super) security: Security,
}

impl Outfit {
    /// Starts what a node that lives in `folder` needs.
    pub(super) async fn equip(&self, folder: &Path) -> Result<Equipment, Stop> {
        let ((queen, settings), security) = match self {
            Self::Bare => return Ok(Equipment::default()),
            Self::Guarded(guard) => (guard.equip(folder).await?, guard.security()?),
            Self::Cell(tenants) => (tenants.equip(folder).await?, tenants.security()),
        };
        Ok(Equipment {
            queen: Some(queen),
            settings,
            security,
        })
    }

    /// What nobody may ever print.
    pub(super) fn secrets(&self) -> Vec<Secret<String>> {
        match self {
            Self::Bare => Vec::new(),
            Self::Guarded(guard) => guard.secrets(),
            Self::Cell(tenants) => tenants.secrets(),
        }
    }
}
