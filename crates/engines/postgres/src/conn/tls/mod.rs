//! The meaning of `sslmode`, as in libpq. `on` implements it; `off` replaces it without the feature `tls`.

#[cfg(not(feature = "tls"))]
mod off;
#[cfg(feature = "tls")]
mod on;

#[cfg(not(feature = "tls"))]
pub(crate) use off::{Stream, Tls, tls};
#[cfg(feature = "tls")]
pub(crate) use on::{Stream, Tls, tls};

use windlass_core::{Error, Result};

/// The required security of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SslMode {
    /// No TLS.
    Disable,
    /// TLS if the server supports it, without verification.
    Prefer,
    /// TLS, without verification unless a root certificate is named.
    Require,
    /// TLS with a trusted certificate for any host name.
    VerifyCa,
    /// TLS with a trusted certificate for this host name.
    VerifyFull,
}

/// Certificate files that a URL names.
#[derive(Clone, Debug, Default)]
pub(crate) struct SslFiles {
    /// Root certificates to trust instead of the system's.
    pub(crate) root: Option<String>,
    /// The client certificate; `key` is its private key.
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

    /// The mode that the driver enforces.
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

/// Refuses files that this mode does not use.
fn check(mode: SslMode, files: &SslFiles) -> Result<()> {
    if let (SslMode::Disable | SslMode::Prefer, Some(root)) = (mode, &files.root) {
        let expected =
            "nothing is verified in this mode: use sslmode=require, verify-ca or verify-full";
        return Err(Error::invalid("sslrootcert", root, expected));
    }
    match (&files.cert, &files.key) {
        (Some(cert), _) if mode == SslMode::Disable => {
            Err(Error::invalid("sslcert", cert, "it is not used without TLS: leave it out"))
        }
        (Some(cert), None) => Err(Error::invalid("sslcert", cert, "name its key by sslkey, too")),
        (None, Some(key)) => {
            Err(Error::invalid("sslkey", key, "name the certificate by sslcert, too"))
        }
        _ => Ok(()),
    }
}
