//! Sessions and claims belong to the key that made them. A worker gets its session's id with a signature
//! for its key, so that an id that somebody else saw is worth nothing to him; all servers of a store can
//! check it, and none has to remember it.

use super::Who;
use windlass_core::engine::{Claim, ClaimId, Claimant, SessionId};
use windlass_core::{Error, Result};

/// Between an id and its signature.
const SEAM: char = '.';

/// A session's id as its owner gets it.
pub(crate) fn issue(who: &Who, session: &SessionId) -> SessionId {
    match who.0.sign(&text(session.as_str())) {
        Some(signature) => SessionId::new(format!("{session}{SEAM}{signature}")),
        None => session.clone(),
    }
}

/// The engine's id of a session that its owner names.
pub(crate) fn close(who: &Who, session: &SessionId) -> Result<SessionId> {
    session.check()?;
    if who.0.id().is_none() {
        return Ok(session.clone());
    }
    // One of before there were keys, or of another key, is as good as gone: the worker opens a new one.
    let lost = || Error::SessionLost { session: session.as_str().to_owned() };
    let (id, signature) = session.as_str().rsplit_once(SEAM).ok_or_else(lost)?;
    match who.0.signed(&text(id), signature) {
        true => Ok(SessionId::new(id)),
        false => Err(lost()),
    }
}

/// A claim under the name that the engine knows: its owner's session, or a name that no other key can use.
pub(crate) fn bind_claim(who: &Who, mut claim: Claim) -> Result<Claim> {
    claim.check()?;
    match &mut claim.by {
        Claimant::Session { session, .. } => *session = close(who, session)?,
        Claimant::Alone { claim_id, .. } => {
            if let Some(name) = who.0.sign(&format!("claim {claim_id}")) {
                *claim_id = ClaimId::new(name);
            }
        }
    }
    Ok(claim)
}

fn text(session: &str) -> String {
    format!("session {session}")
}
