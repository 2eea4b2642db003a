//! `windlass keys`: creates, lists and revokes the access keys of a store.

use crate::output::{Cell, Colour, Table, ago, note, print, print_json};
use crate::store::{Common, block_on};
use crate::values;
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;
use std::time::Duration;
use windlass_core::Timestamp;
use windlass_server::documents;
use windlass_services::{Grants, Key, Keys, NewKey};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key; its secret is printed once, on stdout
    Create(Create),
    /// List keys without their secrets (the default)
    List,
    /// Revoke keys permanently
    Revoke {
        /// Ids of the keys
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Permissions:
  enqueue:KIND  enqueue jobs of this kind; enqueue:* of every kind
  work:QUEUE    claim and settle jobs of this queue; work:* of every queue
  view          read everything, payloads included
  admin         everything

Examples:
  windlass keys create --name ops --may admin
  windlass keys create --name billing --may enqueue:generate_invoice,work:billing --expires 90d
  windlass keys create --name mailer --may work:mail --certificate CN=mailer")]
struct Create {
    /// Name of the key, usually that of the service that uses it
    #[arg(long)]
    name: String,
    /// Permissions, separated by commas
    #[arg(long, value_name = "PERMISSIONS")]
    may: Grants,
    /// Validity period, e.g. 90d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    expires: Option<u64>,
    /// Subject of a client certificate (CN=…, DNS:…, URI:… or EMAIL:…) that authenticates instead of a secret
    #[arg(long, value_name = "NAME")]
    certificate: Option<String>,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(self.act())
    }

    async fn act(self) -> Result<ExitCode> {
        let (common, action) = (&self.common, self.action.unwrap_or(Action::List));
        let client = match &action {
            Action::Create(_) => common.open_or_create().await?,
            _ => common.open().await?,
        };
        let keys = Keys::new(client.engine().clone());
        match action {
            Action::Create(create) => create.run(common, &keys).await?,
            Action::List => list(common, &keys).await?,
            Action::Revoke { ids } => {
                for id in ids {
                    let key = keys.revoke(&id).await?;
                    if common.json {
                        print_json(&documents::key(key))?;
                    } else {
                        note(&format!(
                            "key {id} ({}) is revoked; servers stop accepting it within seconds",
                            key.name
                        ));
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Create {
    async fn run(self, common: &Common, keys: &Keys) -> Result<()> {
        let mut new = NewKey::new(self.name, self.may);
        (new.expires, new.certificate) =
            (self.expires.map(Duration::from_millis), self.certificate);
        let (key, secret) = keys.create(new).await?;
        if common.json {
            let secret = secret.as_ref().map(|secret| secret.expose().to_owned());
            return print_json(&windlass_wire::CreatedKey { key: documents::key(key), secret });
        }
        match secret {
            Some(secret) => {
                note(&format!(
                    "key {} ({}) may {}; its secret is shown only once:",
                    key.id, key.name, key.may
                ));
                print(&format!("{}\n", secret.expose()))
            }
            None => {
                let name = key.certificate.as_deref().unwrap_or_default();
                note(&format!(
                    "key {} ({}) may {}, authenticated by the certificate {name}",
                    key.id, key.name, key.may
                ));
                Ok(())
            }
        }
    }
}

async fn list(common: &Common, keys: &Keys) -> Result<()> {
    let answer = keys.list().await?;
    if common.json {
        let keys = answer.value.into_iter().map(documents::key).collect();
        return print_json(&windlass_wire::Keys { keys });
    }
    if answer.value.is_empty() {
        note("no keys: a server of this store accepts unauthenticated requests");
        return Ok(());
    }
    let mut table = Table::new(["ID", "NAME", "MAY", "PROOF", "MADE", "STATE"]);
    for key in &answer.value {
        table.row([
            Cell::text(&key.id),
            Cell::text(&key.name),
            Cell::text(key.may.to_string()),
            Cell::text(key.certificate.as_deref().unwrap_or("secret")),
            Cell::text(ago(key.created_at, answer.now)),
            state(key, answer.now),
        ]);
    }
    print(&table.to_string())
}

fn state(key: &Key, now: Timestamp) -> Cell {
    match (key.revoked_at, key.expires_at) {
        (Some(at), _) => Cell::text(format!("revoked {}", ago(at, now))).colour(Colour::Bad),
        (None, Some(at)) if at <= now => {
            Cell::text(format!("expired {}", ago(at, now))).colour(Colour::Bad)
        }
        (None, Some(at)) => Cell::text(format!("expires {}", ago(at, now))),
        (None, None) => Cell::text("valid"),
    }
}
