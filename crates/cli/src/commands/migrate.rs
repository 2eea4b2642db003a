//! `windlass migrate`: creates or upgrades the tables of a PostgreSQL store with the rights of their owner, and
//! grants access to other roles.

use crate::output::{print, print_json};
use crate::store::{Common, block_on};
use anyhow::{Result, bail};
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;
use windlass::Url;
use windlass_core::engine::Field;
use windlass_postgres::{Access, Migration, Options, grant, index, migrate, plan};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Database: postgres://USER@HOST/DATABASE [default: the store]
    // Not parsed by clap, whose error messages would show the value: it may contain a password.
    #[arg(value_name = "URL")]
    database: Option<String>,
    /// Schema [default: that of the URL]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
    /// Print the migrations that would run, without running them
    #[arg(long)]
    dry_run: bool,
    /// Print the SQL that would run, without running it, to be run by hand
    #[arg(long, conflicts_with = "dry_run")]
    print_sql: bool,
    /// Role that may enqueue jobs with the SQL functions, and nothing else; can be repeated
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["dry_run", "print_sql"])]
    grant_enqueue: Vec<String>,
    /// Role that may do everything except change the tables: for workers, servers and producers that use the
    /// library; can be repeated
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["dry_run", "print_sql"])]
    grant_worker: Vec<String>,
    /// Role that may read the views; can be repeated
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["dry_run", "print_sql"])]
    grant_viewer: Vec<String>,
    /// Field to index for searches, e.g. payload.customer; can be repeated. Writers are not blocked, but every later
    /// enqueue of a job pays for each index
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["dry_run", "print_sql"])]
    index: Vec<Field>,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let options = self.options()?;
        block_on(async {
            if self.print_sql {
                return print(&plan(&options).await?.sql);
            }
            let change = match self.dry_run {
                true => plan(&options).await?,
                false => migrate(&options).await?,
            };
            let grants = self.grant(&options).await?;
            for field in &self.index {
                index(&options, field).await?;
            }
            self.print_result(&change, &grants)
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self) -> Result<Options> {
        let url = self.common.at(self.database.clone())?.url()?;
        let Url::Postgres(at) = &url else {
            bail!("{url} has nothing to migrate: only postgres:// stores have tables")
        };
        let schema = self.schema.as_deref().unwrap_or(at.schema());
        Ok(Options::new(at.server()).schema(schema))
    }

    /// Grants access to the roles; returns the statements that did it.
    async fn grant(&self, options: &Options) -> Result<Vec<String>> {
        let wanted = [
            (Access::Enqueue, &self.grant_enqueue),
            (Access::Work, &self.grant_worker),
            (Access::View, &self.grant_viewer),
        ];
        let mut statements = Vec::new();
        for (access, roles) in wanted {
            for role in roles {
                statements.push(grant(options, access, role).await?);
            }
        }
        Ok(statements)
    }

    fn print_result(&self, change: &Migration, grants: &[String]) -> Result<()> {
        if self.common.json {
            let Migration { schema, from, to, steps, .. } = change;
            return print_json(&json!({
                "schema": schema, "from": from, "to": to, "steps": steps,
                "done": !self.dry_run, "grants": grants, "indexes": self.index,
            }));
        }
        let mut text = match change.steps.is_empty() {
            true => format!("{change}: nothing to do\n"),
            false if self.dry_run => format!("would migrate {change}\n"),
            false => format!("migrated {change}\n"),
        };
        for statements in grants {
            write!(text, "{statements}")?;
        }
        for field in &self.index {
            writeln!(text, "indexed {field}")?;
        }
        print(&text)
    }
}
