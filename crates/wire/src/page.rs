//! Pages of short lists: those that are read as a whole, and returned in parts.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::Cursor;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Error, Result, within_range};

/// Query for a page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// The `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Cursor, required = false))]
    pub after: Option<Cursor>,
    /// Maximum number of rows; 1,000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::PageLimit, required = false))]
    pub limit: Option<u32>,
}

impl PageQuery {
    /// The maximum number of rows, with its default.
    pub fn limit(&self) -> Result<usize> {
        let limit = self.limit.unwrap_or(PAGE_MAX);
        within_range("limit", limit.into(), 1..=PAGE_MAX.into())?;
        Ok(limit as usize)
    }

    /// The position after the previous page, in a list whose cursors are positions.
    pub fn position(&self) -> Result<usize> {
        let Some(after) = &self.after else { return Ok(0) };
        let wrong =
            |_| Error::invalid("after", after.as_str(), "use the `next` of a page of this list");
        after.as_str().parse().map_err(wrong)
    }

    /// The rows of the page, of a list that is sorted by name; and the cursor of the next page, which is the last name.
    pub fn cut<T>(
        &self,
        mut rows: Vec<T>,
        name: impl Fn(&T) -> &str,
    ) -> Result<(Vec<T>, Option<Cursor>)> {
        let limit = self.limit()?;
        if let Some(after) = &self.after {
            let gone = rows.partition_point(|row| name(row) <= after.as_str());
            rows.drain(..gone);
        }
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| has_more).map(|row| Cursor::new(name(row).to_owned()));
        Ok((rows, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_names_follow_each_other() {
        let names = ["a", "b", "c", "d", "e"];
        let (mut seen, mut query) = (Vec::new(), PageQuery { after: None, limit: Some(2) });
        for expected in [2, 2, 1] {
            let (rows, next) = query.cut(names.to_vec(), |name| name).unwrap();
            assert_eq!((rows.len(), next.is_some()), (expected, expected == 2));
            seen.extend(rows);
            query.after = next;
        }
        assert_eq!(seen, names);
        let exact = PageQuery { after: None, limit: Some(5) };
        assert_eq!(exact.cut(names.to_vec(), |name| name).unwrap().1, None);
    }

    #[test]
    fn bad_limits_and_cursors_are_refused() {
        for limit in [0, PAGE_MAX + 1] {
            let query = PageQuery { after: None, limit: Some(limit) };
            assert_eq!(query.limit().unwrap_err().field(), Some("limit"));
        }
        let query = PageQuery { after: Some(Cursor::new("x")), limit: None };
        assert_eq!(query.position().unwrap_err().field(), Some("after"));
    }
}
