//! What text search has, as `pg_catalog` shows it: configurations, their dictionaries, the parser.

use diligence_catalog::SessionSnapshot;
use diligence_catalog::privileges::OWNER_OID;
use diligence_types::search::Configuration;
use diligence_types::search::dictionaries::Dictionary;
use diligence_types::search::words::WordClass;

use super::CATALOG_OID;
use super::rows::{Cell, Source};

/// The number of the only parser.
const PARSER_OID: u32 = 3722;
/// The numbers of what dictionaries are made of.
const SIMPLE_OID: u32 = 3727;
const SNOWBALL_OID: u32 = 13_150;

/// The tables: their names, their columns and their rows.
pub(super) const TABLES: [(&str, &str, Source); 5] = [
    ("pg_ts_config", "oid:p cfgname:n cfgnamespace:p cfgowner:p cfgparser:p", configurations),
    ("pg_ts_config_map", "mapcfg:p maptokentype:i mapseqno:i mapdict:p", classes),
    ("pg_ts_dict", "oid:p dictname:n dictnamespace:p dictowner:p dicttemplate:p dictinitoption", dictionaries),
    ("pg_ts_parser", "oid:p prsname:n prsnamespace:p prsstart prstoken prsend prsheadline prslextype", parsers),
    ("pg_ts_template", "oid:p tmplname:n tmplnamespace:p tmplinit tmpllexize", templates),
];

fn configurations(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(one, oid): (Configuration, u32)| {
        vec![oid.into(), one.name().into(), CATALOG_OID.into(), OWNER_OID.into(), PARSER_OID.into()]
    };
    Configuration::all().map(row).collect()
}

fn classes(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let oid_of = |dictionary: Dictionary| {
        Dictionary::all().find(|(one, _)| one.name() == dictionary.name()).map_or(0, |(_, oid)| oid)
    };
    let mut rows = Vec::new();
    for (one, oid) in Configuration::all() {
        for (class, ..) in WordClass::ALL {
            let Some(dictionary) = one.dictionary(class) else { continue };
            rows.push(vec![oid.into(), class.number().into(), 1.into(), oid_of(dictionary).into()]);
        }
    }
    rows
}

fn dictionaries(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |((one, oid), (configuration, _)): ((Dictionary, u32), (Configuration, u32))| {
        let options = configuration.dictionary_options();
        let template = if options.is_some() { SNOWBALL_OID } else { SIMPLE_OID };
        vec![
            oid.into(),
            one.name().into(),
            CATALOG_OID.into(),
            OWNER_OID.into(),
            template.into(),
            options.map_or(Cell::Null, Cell::Text),
        ]
    };
    Dictionary::all().zip(Configuration::all()).map(row).collect()
}

fn parsers(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let functions = ["prsd_start", "prsd_nexttoken", "prsd_end", "prsd_headline", "prsd_lextype"];
    let row = [PARSER_OID.into(), "default".into(), CATALOG_OID.into()];
    vec![row.into_iter().chain(functions.map(Cell::from)).collect()]
}

fn templates(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(oid, name, function): (u32, &str, &str)| {
        let function = |what: &str| Cell::Text(format!("{function}_{what}"));
        vec![oid.into(), name.into(), CATALOG_OID.into(), function("init"), function("lexize")]
    };
    [(SIMPLE_OID, "simple", "dsimple"), (SNOWBALL_OID, "snowball", "dsnowball")].map(row).to_vec()
}
