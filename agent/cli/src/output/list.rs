//! Lists: one way for all of them to be narrowed to a namespace, shown in each format, and watched.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::Output;
use crate::error::ClientError;

/// How often a list that is watched is asked for: the agent tells nobody of changes by itself.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 1000 });

/// What of a list is shown, and for how long.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Listing {
    /// Only those of a namespace
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,

    /// Those of all namespaces, as without -n
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,

    #[command(flatten)]
    pub(crate) watch: Watch,
}

/// For how long a list is shown.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Watch {
    /// Go on, and show what changes; looks once a second
    #[arg(short, long)]
    pub(crate) watch: bool,
}

impl From<Watch> for Listing {
    fn from(watch: Watch) -> Self {
        Self { watch, ..Self::default() }
    }
}

/// Something that a list consists of.
pub(crate) trait Listed: Serialize {
    /// What columns are called.
    const HEADINGS: &'static [&'static str];
    /// Those that only `-o wide` shows, behind the others.
    const WIDE: &'static [&'static str] = &[];

    /// Its cells, one for each heading of both.
    fn cells(&self) -> Vec<String>;

    /// By what it is known again when the list is watched.
    fn key(&self) -> String {
        self.cells().swap_remove(0)
    }

    /// Namespaces that it belongs to.
    fn namespaces(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
}

/// The namespace of `namespace/name`.
pub(crate) fn namespace_of(name: &str) -> BTreeSet<String> {
    name.split_once('/').map(|(namespace, _)| namespace.to_owned()).into_iter().collect()
}

/// The namespace that labels name.
pub(crate) fn namespace_in<'a>(labels: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    let key = "k8s:io.kubernetes.pod.namespace=";
    labels.into_iter().filter_map(|label| label.strip_prefix(key)).map(str::to_owned).collect()
}

/// Shows a list, and goes on with it if that is asked for.
pub(crate) async fn list<T: Listed>(
    out: &mut Output<'_>,
    listing: &Listing,
    fetch: impl AsyncFn() -> Result<Vec<T>, ClientError>,
) -> Result<(), ClientError> {
    let mut all = narrowed(fetch().await?, listing);
    if !listing.watch.watch {
        return shown(out, &all);
    }
    let mut table = Columns::new::<T>(out, &all);
    table.head(out)?;
    for one in &all {
        table.row(out, one, false)?;
    }
    let mut known = by_key(&all);
    loop {
        out.flush()?;
        tokio::time::sleep(PAUSE).await;
        let now = narrowed(fetch().await?, listing);
        let keys = by_key(&now);
        for one in now.iter().filter(|it| known.get(&it.key()) != keys.get(&it.key())) {
            table.row(out, one, false)?;
        }
        for gone in all.iter().filter(|it| !keys.contains_key(&it.key())) {
            table.row(out, gone, true)?;
        }
        (all, known) = (now, keys);
    }
}

/// Shows a list once.
pub(crate) fn shown<T: Listed>(out: &mut Output<'_>, all: &[T]) -> Result<(), ClientError> {
    out.answer(&all, |out, all| {
        let wide = if out.is_wide() { T::WIDE } else { &[] };
        let headings = [T::HEADINGS, wide].concat();
        let rows = all.iter().map(|it| {
            let mut cells = it.cells();
            cells.truncate(headings.len());
            cells
        });
        out.rows(&headings, rows)
    })
}

/// Shows one thing, as a list of one to people.
pub(crate) fn shown_one<T: Listed>(out: &mut Output<'_>, one: &T) -> Result<(), ClientError> {
    match out.is_for_programs() {
        true => out.value(one),
        false => shown(out, std::slice::from_ref(one)),
    }
}

fn narrowed<T: Listed>(mut all: Vec<T>, listing: &Listing) -> Vec<T> {
    if let Some(namespace) = &listing.namespace {
        all.retain(|it| it.namespaces().contains(namespace));
    }
    all
}

fn by_key<T: Listed>(all: &[T]) -> BTreeMap<String, Value> {
    let value = |it: &T| serde_json::to_value(it).unwrap_or_default();
    all.iter().map(|it| (it.key(), value(it))).collect()
}

/// Rows that come one by one: columns are as wide as the first rows made them.
struct Columns {
    headings: Vec<&'static str>,
    widths: Vec<usize>,
}

impl Columns {
    fn new<T: Listed>(out: &Output<'_>, first: &[T]) -> Self {
        let wide = if out.is_wide() { T::WIDE } else { &[] };
        let headings = [T::HEADINGS, wide].concat();
        let mut widths: Vec<_> = headings.iter().map(|it| it.len()).collect();
        for one in first {
            for (width, cell) in widths.iter_mut().zip(one.cells()) {
                *width = (*width).max(one_line(&cell).chars().count());
            }
        }
        Self { headings, widths }
    }

    fn head(&self, out: &mut Output<'_>) -> Result<(), ClientError> {
        if out.is_for_programs() {
            return Ok(());
        }
        let cells: Vec<_> = self.headings.iter().map(|it| (*it).to_owned()).collect();
        out.line(self.line(&cells))
    }

    fn row<T: Listed>(
        &mut self,
        out: &mut Output<'_>,
        one: &T,
        gone: bool,
    ) -> Result<(), ClientError> {
        if out.is_for_programs() {
            let mut value = serde_json::to_value(one).unwrap_or_default();
            if let (true, Value::Object(members)) = (gone, &mut value) {
                members.insert("gone".to_owned(), json!(true));
            }
            return out.record(&value);
        }
        let cells: Vec<_> = one.cells().iter().map(|cell| one_line(cell)).collect();
        let line = self.line(&cells[..self.headings.len()]);
        out.line(if gone { format!("{line}  (gone)") } else { line })
    }

    fn line(&self, cells: &[String]) -> String {
        let padded = cells.iter().zip(&self.widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

fn one_line(cell: &str) -> String {
    cell.lines().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::output::Format;

    #[derive(Serialize)]
    struct Pod {
        id: u16,
        pod: &'static str,
        node: &'static str,
    }

    impl Listed for Pod {
        const HEADINGS: &'static [&'static str] = &["ID", "POD"];
        const WIDE: &'static [&'static str] = &["NODE"];

        fn cells(&self) -> Vec<String> {
            vec![self.id.to_string(), self.pod.to_owned(), self.node.to_owned()]
        }

        fn namespaces(&self) -> BTreeSet<String> {
            namespace_of(self.pod)
        }
    }

    fn pods() -> Vec<Pod> {
        vec![Pod { id: 7, pod: "shop/web", node: "a" }, Pod { id: 8, pod: "mail/in", node: "b" }]
    }

    fn written(format: Format, listing: Listing) -> String {
        let mut bytes = Vec::new();
        let mut out = Output::new(format, &mut bytes);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(list(&mut out, &listing, async || Ok(pods()))).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_list_is_narrowed_and_shown_in_each_format() {
        let of = |namespace: &str| Listing {
            namespace: Some(namespace.to_owned()),
            ..Listing::default()
        };
        let all = Listing::default;
        assert_eq!(written(Format::Table, all()), "ID  POD\n7   shop/web\n8   mail/in\n");
        assert_eq!(written(Format::Wide, of("shop")), "ID  POD       NODE\n7   shop/web  a\n");
        assert_eq!(written(Format::Yaml, of("mail")), "- id: 8\n  pod: mail/in\n  node: b\n");
        let path = crate::output::Template::parse("{.items[*].id}").unwrap();
        assert_eq!(written(Format::Jsonpath(path), all()), "7 8\n");
        // Nothing is an empty list, and no failure.
        assert_eq!(written(Format::Json, of("none")), "[]\n");
        assert_eq!(written(Format::Yaml, of("none")), "[]\n");
        assert_eq!(written(Format::Table, of("none")), "ID  POD\n");
    }

    #[test]
    fn a_watch_shows_what_changes() {
        let mut bytes = Vec::new();
        let asked = Cell::new(0);
        let fetch = async || {
            asked.set(asked.get() + 1);
            let mut all = pods();
            match asked.get() {
                1 => {}
                2 => all[0].node = "c",
                3 => drop(all.remove(1)),
                _ => return Err(ClientError::Failed("enough".to_owned())),
            }
            Ok(all)
        };
        let mut out = Output::new(Format::Wide, &mut bytes);
        let listing = Listing::from(Watch { watch: true });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let ended = runtime.unwrap().block_on(list(&mut out, &listing, fetch));
        assert!(ended.unwrap_err().to_string().contains("enough"));
        let expected = "ID  POD       NODE\n7   shop/web  a\n8   mail/in   b\n7   shop/web  c\n\
                        7   shop/web  a\n8   mail/in   b  (gone)\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
