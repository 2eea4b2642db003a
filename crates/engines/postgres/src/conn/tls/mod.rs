//! What `sslmode` means, as in libpq. How it is done is in `on`, or not at all in `off`, where the feature
//! `tls` is left out.

#[cfg(not(feature = "tls"))]
mod off;
#[cfg(feature = "tls")]
mod on;

#[cfg(not(feature = "tls"))]
pub(crate) use off::{Stream, Tls, tls};
#[cfg(feature = "tls")]
pub(crate) use on::{Stream, Tls, tls};

use windlass_core::{Error, Result};

/// How much of TLS there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SslMode {
    /// None.
    Disable,
    /// If the server has it; whoever it is.
    Prefer,
    /// Encrypted; whoever the server is, unless a root is named.
    Require,
    /// With a certificate that leads to a root we trust, whatever its name.
    VerifyCa,
    /// And made out to the host that we wanted.
    VerifyFull,
}

/// Files that a URL names.
#[derive(Clone, Debug, Default)]
pub(crate) struct SslFiles {
    /// Roots to trust instead of the system's.
    pub(crate) root: Option<String>,
    /// Our own certificate and its key.
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
}

impl SslMode {
    pub(crate) fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                let expected = "use disable, prefer, require, verify-ca or verify-full";
                return Err(Error::invalid("sslmode", name, expected));
            }
        })
    }

    /// What the driver must insist on.
    pub(crate) const fn demand(self) -> tokio_postgres::config::SslMode {
        match self {
            Self::Disable => tokio_postgres::config::SslMode::Disable,
            Self::Prefer => tokio_postgres::config::SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => {
                tokio_postgres::config::SslMode::Require
            }
        }
    }
}

/// Refuses files that would not be looked at.
fn check(mode: SslMode, files: &SslFiles) -> Result<()> {
    if let (SslMode::Disable | SslMode::Prefer, Some(root)) = (mode, &files.root) {
        let expected =
            "nothing is verified in this mode: use sslmode=require, verify-ca or verify-full";
        return Err(Error::invalid("sslrootcert", root, expected));
    }
    match (&files.cert, &files.key) {
        (Some(cert), _) if mode == SslMode::Disable => {
            Err(Error::invalid("sslcert", cert, "without TLS it is shown to nobody: leave it out"))
        }
        (Some(cert), None) => Err(Error::invalid("sslcert", cert, "name its key by sslkey, too")),
        (None, Some(key)) => {
            Err(Error::invalid("sslkey", key, "name the certificate by sslcert, too"))
        }
        _ => Ok(()),
    }
}
