//! Access methods of indexes and their operator classes, as PostgreSQL has them.
//!
//! Only what is shown of an index depends on them: rows are found by the order of the columns' values, whatever the
//! method and the classes are.

use diligence_types::SqlType;

/// Numbers and names of the access methods.
pub const ACCESS_METHODS: [(u32, &str); 6] =
    [(403, "btree"), (405, "hash"), (783, "gist"), (2742, "gin"), (4000, "spgist"), (3580, "brin")];

/// How values of a type are compared in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorClass {
    /// The number of its access method.
    pub method: u32,
    /// Its number.
    pub oid: u32,
    /// Its name.
    pub name: &'static str,
    /// The number of its family.
    pub family: u32,
    /// The number of the type of the values.
    pub of_type: u32,
    /// Whether columns of the type have it that name none.
    pub is_default: bool,
    /// The number of the type that the index has in their place; 0 for the same.
    pub kept_type: u32,
}

const fn class(
    method: u32,
    oid: u32,
    name: &'static str,
    family: u32,
    of_type: u32,
    is_default: bool,
    kept_type: u32,
) -> OperatorClass {
    OperatorClass { method, oid, name, family, of_type, is_default, kept_type }
}

/// The number of an access method; `None` if there is none of this name.
pub fn method_oid(name: &str) -> Option<u32> {
    ACCESS_METHODS.iter().find(|(_, known)| *known == name).map(|(oid, _)| *oid)
}

/// The numbers of the types whose classes are those of a type: its own, and those that it counts as.
fn counts_as(sql_type: &SqlType) -> [u32; 2] {
    let own = sql_type.base().uncollated().oid();
    let also = match sql_type.base() {
        SqlType::Array(_) => 2277,
        SqlType::Record(_) => 2249,
        SqlType::Enum(_) => 3500,
        _ => match own {
            1043 => 25,
            650 => 869,
            24 | 2202 | 2205 | 2206 | 3734 | 3769 | 4089 => 26,
            3904 | 3906 | 3908 | 3910 | 3912 | 3926 => 3831,
            4451 | 4532..=4536 => 4537,
            _ => own,
        },
    };
    [own, also]
}

/// The class that columns of a type have by default. `None` if the method has none for the type.
pub fn default_class(method: &str, sql_type: &SqlType) -> Option<&'static OperatorClass> {
    let method = method_oid(method)?;
    let of = |oid: u32| {
        OPERATOR_CLASSES.iter().find(|class| class.method == method && class.of_type == oid && class.is_default)
    };
    counts_as(sql_type).into_iter().find_map(of)
}

/// The class of a name. `None` if the method has none.
pub fn named_class(method: &str, name: &str) -> Option<&'static OperatorClass> {
    let method = method_oid(method)?;
    OPERATOR_CLASSES.iter().find(|class| class.method == method && class.name == name)
}

impl OperatorClass {
    /// Whether it compares values of a type.
    pub fn accepts(&self, sql_type: &SqlType) -> bool {
        counts_as(sql_type).contains(&self.of_type)
    }
}

/// Numbers, access methods and names of the families.
#[rustfmt::skip]
pub const OPERATOR_FAMILIES: [(u32, u32, &str); 146] = [
    (397, 403, "array_ops"),
    (423, 403, "bit_ops"),
    (424, 403, "bool_ops"),
    (426, 403, "bpchar_ops"),
    (428, 403, "bytea_ops"),
    (429, 403, "char_ops"),
    (434, 403, "datetime_ops"),
    (1970, 403, "float_ops"),
    (1974, 403, "network_ops"),
    (1976, 403, "integer_ops"),
    (1982, 403, "interval_ops"),
    (1984, 403, "macaddr_ops"),
    (1988, 403, "numeric_ops"),
    (1989, 403, "oid_ops"),
    (1991, 403, "oidvector_ops"),
    (1994, 403, "text_ops"),
    (1996, 403, "time_ops"),
    (2000, 403, "timetz_ops"),
    (2002, 403, "varbit_ops"),
    (2095, 403, "text_pattern_ops"),
    (2097, 403, "bpchar_pattern_ops"),
    (2099, 403, "money_ops"),
    (2789, 403, "tid_ops"),
    (2968, 403, "uuid_ops"),
    (2994, 403, "record_ops"),
    (3194, 403, "record_image_ops"),
    (3253, 403, "pg_lsn_ops"),
    (3371, 403, "macaddr8_ops"),
    (3522, 403, "enum_ops"),
    (3626, 403, "tsvector_ops"),
    (3683, 403, "tsquery_ops"),
    (3901, 403, "range_ops"),
    (4033, 403, "jsonb_ops"),
    (4199, 403, "multirange_ops"),
    (5067, 403, "xid8_ops"),
    (427, 405, "bpchar_ops"),
    (431, 405, "char_ops"),
    (435, 405, "date_ops"),
    (627, 405, "array_ops"),
    (1971, 405, "float_ops"),
    (1975, 405, "network_ops"),
    (1977, 405, "integer_ops"),
    (1983, 405, "interval_ops"),
    (1985, 405, "macaddr_ops"),
    (1990, 405, "oid_ops"),
    (1992, 405, "oidvector_ops"),
    (1995, 405, "text_ops"),
    (1997, 405, "time_ops"),
    (1998, 405, "numeric_ops"),
    (1999, 405, "timestamptz_ops"),
    (2001, 405, "timetz_ops"),
    (2040, 405, "timestamp_ops"),
    (2222, 405, "bool_ops"),
    (2223, 405, "bytea_ops"),
    (2225, 405, "xid_ops"),
    (2226, 405, "cid_ops"),
    (2227, 405, "tid_ops"),
    (2229, 405, "text_pattern_ops"),
    (2231, 405, "bpchar_pattern_ops"),
    (2235, 405, "aclitem_ops"),
    (2969, 405, "uuid_ops"),
    (3254, 405, "pg_lsn_ops"),
    (3372, 405, "macaddr8_ops"),
    (3523, 405, "enum_ops"),
    (3903, 405, "range_ops"),
    (4034, 405, "jsonb_ops"),
    (4225, 405, "multirange_ops"),
    (5032, 405, "xid8_ops"),
    (6194, 405, "record_ops"),
    (1029, 783, "point_ops"),
    (2593, 783, "box_ops"),
    (2594, 783, "poly_ops"),
    (2595, 783, "circle_ops"),
    (3550, 783, "network_ops"),
    (3655, 783, "tsvector_ops"),
    (3702, 783, "tsquery_ops"),
    (3919, 783, "range_ops"),
    (6158, 783, "multirange_ops"),
    (2745, 2742, "array_ops"),
    (3659, 2742, "tsvector_ops"),
    (4036, 2742, "jsonb_ops"),
    (4037, 2742, "jsonb_path_ops"),
    (4054, 3580, "integer_minmax_ops"),
    (4055, 3580, "numeric_minmax_ops"),
    (4056, 3580, "text_minmax_ops"),
    (4058, 3580, "timetz_minmax_ops"),
    (4059, 3580, "datetime_minmax_ops"),
    (4062, 3580, "char_minmax_ops"),
    (4064, 3580, "bytea_minmax_ops"),
    (4065, 3580, "name_minmax_ops"),
    (4068, 3580, "oid_minmax_ops"),
    (4069, 3580, "tid_minmax_ops"),
    (4070, 3580, "float_minmax_ops"),
    (4074, 3580, "macaddr_minmax_ops"),
    (4075, 3580, "network_minmax_ops"),
    (4076, 3580, "bpchar_minmax_ops"),
    (4077, 3580, "time_minmax_ops"),
    (4078, 3580, "interval_minmax_ops"),
    (4079, 3580, "bit_minmax_ops"),
    (4080, 3580, "varbit_minmax_ops"),
    (4081, 3580, "uuid_minmax_ops"),
    (4082, 3580, "pg_lsn_minmax_ops"),
    (4102, 3580, "network_inclusion_ops"),
    (4103, 3580, "range_inclusion_ops"),
    (4104, 3580, "box_inclusion_ops"),
    (4109, 3580, "macaddr8_minmax_ops"),
    (4572, 3580, "integer_bloom_ops"),
    (4573, 3580, "text_bloom_ops"),
    (4574, 3580, "numeric_bloom_ops"),
    (4575, 3580, "timetz_bloom_ops"),
    (4576, 3580, "datetime_bloom_ops"),
    (4577, 3580, "char_bloom_ops"),
    (4578, 3580, "bytea_bloom_ops"),
    (4579, 3580, "name_bloom_ops"),
    (4580, 3580, "oid_bloom_ops"),
    (4581, 3580, "tid_bloom_ops"),
    (4582, 3580, "float_bloom_ops"),
    (4583, 3580, "macaddr_bloom_ops"),
    (4584, 3580, "macaddr8_bloom_ops"),
    (4585, 3580, "network_bloom_ops"),
    (4586, 3580, "bpchar_bloom_ops"),
    (4587, 3580, "time_bloom_ops"),
    (4588, 3580, "interval_bloom_ops"),
    (4589, 3580, "uuid_bloom_ops"),
    (4590, 3580, "pg_lsn_bloom_ops"),
    (4602, 3580, "integer_minmax_multi_ops"),
    (4603, 3580, "numeric_minmax_multi_ops"),
    (4604, 3580, "timetz_minmax_multi_ops"),
    (4605, 3580, "datetime_minmax_multi_ops"),
    (4606, 3580, "oid_minmax_multi_ops"),
    (4607, 3580, "tid_minmax_multi_ops"),
    (4608, 3580, "float_minmax_multi_ops"),
    (4609, 3580, "macaddr_minmax_multi_ops"),
    (4610, 3580, "macaddr8_minmax_multi_ops"),
    (4611, 3580, "network_minmax_multi_ops"),
    (4612, 3580, "time_minmax_multi_ops"),
    (4613, 3580, "interval_minmax_multi_ops"),
    (4614, 3580, "uuid_minmax_multi_ops"),
    (4615, 3580, "pg_lsn_minmax_multi_ops"),
    (3474, 4000, "range_ops"),
    (3794, 4000, "network_ops"),
    (4015, 4000, "quad_point_ops"),
    (4016, 4000, "kd_point_ops"),
    (4017, 4000, "text_ops"),
    (5000, 4000, "box_ops"),
    (5008, 4000, "poly_ops"),
];

/// The classes, by access method.
#[rustfmt::skip]
pub const OPERATOR_CLASSES: [OperatorClass; 177] = [
    class(403, 10000, "array_ops", 397, 2277, true, 0),
    class(403, 10002, "bit_ops", 423, 1560, true, 0),
    class(403, 10003, "bool_ops", 424, 16, true, 0),
    class(403, 10004, "bpchar_ops", 426, 1042, true, 0),
    class(403, 4219, "bpchar_pattern_ops", 2097, 1042, false, 0),
    class(403, 10006, "bytea_ops", 428, 17, true, 0),
    class(403, 10007, "char_ops", 429, 18, true, 0),
    class(403, 10009, "cidr_ops", 1974, 869, false, 0),
    class(403, 3122, "date_ops", 434, 1082, true, 0),
    class(403, 10069, "enum_ops", 3522, 3500, true, 0),
    class(403, 10012, "float4_ops", 1970, 700, true, 0),
    class(403, 3123, "float8_ops", 1970, 701, true, 0),
    class(403, 10015, "inet_ops", 1974, 869, true, 0),
    class(403, 1979, "int2_ops", 1976, 21, true, 0),
    class(403, 1978, "int4_ops", 1976, 23, true, 0),
    class(403, 3124, "int8_ops", 1976, 20, true, 0),
    class(403, 10022, "interval_ops", 1982, 1186, true, 0),
    class(403, 10088, "jsonb_ops", 4033, 3802, true, 0),
    class(403, 10026, "macaddr8_ops", 3371, 774, true, 0),
    class(403, 10024, "macaddr_ops", 1984, 829, true, 0),
    class(403, 10047, "money_ops", 2099, 790, true, 0),
    class(403, 10080, "multirange_ops", 4199, 4537, true, 0),
    class(403, 10028, "name_ops", 1994, 19, true, 2275),
    class(403, 3125, "numeric_ops", 1988, 1700, true, 0),
    class(403, 1981, "oid_ops", 1989, 26, true, 0),
    class(403, 10032, "oidvector_ops", 1991, 30, true, 0),
    class(403, 10067, "pg_lsn_ops", 3253, 3220, true, 0),
    class(403, 10076, "range_ops", 3901, 3831, true, 0),
    class(403, 10036, "record_image_ops", 3194, 2249, false, 0),
    class(403, 10034, "record_ops", 2994, 2249, true, 0),
    class(403, 3126, "text_ops", 1994, 25, true, 0),
    class(403, 4217, "text_pattern_ops", 2095, 25, false, 0),
    class(403, 10050, "tid_ops", 2789, 27, true, 0),
    class(403, 10038, "time_ops", 1996, 1083, true, 0),
    class(403, 3128, "timestamp_ops", 434, 1114, true, 0),
    class(403, 3127, "timestamptz_ops", 434, 1184, true, 0),
    class(403, 10041, "timetz_ops", 2000, 1266, true, 0),
    class(403, 10074, "tsquery_ops", 3683, 3615, true, 0),
    class(403, 10071, "tsvector_ops", 3626, 3614, true, 0),
    class(403, 10065, "uuid_ops", 2968, 2950, true, 0),
    class(403, 10043, "varbit_ops", 2002, 1562, true, 0),
    class(403, 10044, "varchar_ops", 1994, 25, false, 0),
    class(403, 4218, "varchar_pattern_ops", 2095, 25, false, 0),
    class(403, 10053, "xid8_ops", 5067, 5069, true, 0),
    class(405, 10059, "aclitem_ops", 2235, 1033, true, 0),
    class(405, 10001, "array_ops", 627, 2277, true, 0),
    class(405, 10048, "bool_ops", 2222, 16, true, 0),
    class(405, 10005, "bpchar_ops", 427, 1042, true, 0),
    class(405, 10058, "bpchar_pattern_ops", 2231, 1042, false, 0),
    class(405, 10049, "bytea_ops", 2223, 17, true, 0),
    class(405, 10008, "char_ops", 431, 18, true, 0),
    class(405, 10054, "cid_ops", 2226, 29, true, 0),
    class(405, 10010, "cidr_ops", 1975, 869, false, 0),
    class(405, 10011, "date_ops", 435, 1082, true, 0),
    class(405, 10070, "enum_ops", 3523, 3500, true, 0),
    class(405, 10013, "float4_ops", 1971, 700, true, 0),
    class(405, 10014, "float8_ops", 1971, 701, true, 0),
    class(405, 10016, "inet_ops", 1975, 869, true, 0),
    class(405, 10019, "int2_ops", 1977, 21, true, 0),
    class(405, 10020, "int4_ops", 1977, 23, true, 0),
    class(405, 10021, "int8_ops", 1977, 20, true, 0),
    class(405, 10023, "interval_ops", 1983, 1186, true, 0),
    class(405, 10089, "jsonb_ops", 4034, 3802, true, 0),
    class(405, 10027, "macaddr8_ops", 3372, 774, true, 0),
    class(405, 10025, "macaddr_ops", 1985, 829, true, 0),
    class(405, 10081, "multirange_ops", 4225, 4537, true, 0),
    class(405, 10029, "name_ops", 1995, 19, true, 0),
    class(405, 10030, "numeric_ops", 1998, 1700, true, 0),
    class(405, 10031, "oid_ops", 1990, 26, true, 0),
    class(405, 10033, "oidvector_ops", 1992, 30, true, 0),
    class(405, 10068, "pg_lsn_ops", 3254, 3220, true, 0),
    class(405, 10077, "range_ops", 3903, 3831, true, 0),
    class(405, 10035, "record_ops", 6194, 2249, true, 0),
    class(405, 10037, "text_ops", 1995, 25, true, 0),
    class(405, 10056, "text_pattern_ops", 2229, 25, false, 0),
    class(405, 10055, "tid_ops", 2227, 27, true, 0),
    class(405, 10039, "time_ops", 1997, 1083, true, 0),
    class(405, 10046, "timestamp_ops", 2040, 1114, true, 0),
    class(405, 10040, "timestamptz_ops", 1999, 1184, true, 0),
    class(405, 10042, "timetz_ops", 2001, 1266, true, 0),
    class(405, 10066, "uuid_ops", 2969, 2950, true, 0),
    class(405, 10045, "varchar_ops", 1995, 25, false, 0),
    class(405, 10057, "varchar_pattern_ops", 2229, 25, false, 0),
    class(405, 10052, "xid8_ops", 5032, 5069, true, 0),
    class(405, 10051, "xid_ops", 2225, 28, true, 0),
    class(783, 10060, "box_ops", 2593, 603, true, 0),
    class(783, 10063, "circle_ops", 2595, 718, true, 603),
    class(783, 10017, "inet_ops", 3550, 869, false, 0),
    class(783, 10082, "multirange_ops", 6158, 4537, true, 3831),
    class(783, 10061, "point_ops", 1029, 600, true, 603),
    class(783, 10062, "poly_ops", 2594, 604, true, 603),
    class(783, 10078, "range_ops", 3919, 3831, true, 0),
    class(783, 10075, "tsquery_ops", 3702, 3615, true, 20),
    class(783, 10072, "tsvector_ops", 3655, 3614, true, 3642),
    class(2742, 10064, "array_ops", 2745, 2277, true, 2283),
    class(2742, 10090, "jsonb_ops", 4036, 3802, true, 25),
    class(2742, 10091, "jsonb_path_ops", 4037, 3802, false, 23),
    class(2742, 10073, "tsvector_ops", 3659, 3614, true, 25),
    class(4000, 10083, "box_ops", 5000, 603, true, 0),
    class(4000, 10018, "inet_ops", 3794, 869, true, 0),
    class(4000, 10085, "kd_point_ops", 4016, 600, false, 0),
    class(4000, 10087, "poly_ops", 5008, 604, true, 603),
    class(4000, 10084, "quad_point_ops", 4015, 600, true, 0),
    class(4000, 10079, "range_ops", 3474, 3831, true, 0),
    class(4000, 10086, "text_ops", 4017, 25, true, 0),
    class(3580, 10151, "bit_minmax_ops", 4079, 1560, true, 1560),
    class(3580, 10163, "box_inclusion_ops", 4104, 603, true, 603),
    class(3580, 10132, "bpchar_bloom_ops", 4586, 1042, false, 1042),
    class(3580, 10131, "bpchar_minmax_ops", 4076, 1042, true, 1042),
    class(3580, 10093, "bytea_bloom_ops", 4578, 17, false, 17),
    class(3580, 10092, "bytea_minmax_ops", 4064, 17, true, 17),
    class(3580, 10095, "char_bloom_ops", 4577, 18, false, 18),
    class(3580, 10094, "char_minmax_ops", 4062, 18, true, 18),
    class(3580, 10138, "date_bloom_ops", 4576, 1082, false, 1082),
    class(3580, 10137, "date_minmax_multi_ops", 4605, 1082, false, 1082),
    class(3580, 10136, "date_minmax_ops", 4059, 1082, true, 1082),
    class(3580, 10117, "float4_bloom_ops", 4582, 700, false, 700),
    class(3580, 10116, "float4_minmax_multi_ops", 4608, 700, false, 700),
    class(3580, 10115, "float4_minmax_ops", 4070, 700, true, 700),
    class(3580, 10120, "float8_bloom_ops", 4582, 701, false, 701),
    class(3580, 10119, "float8_minmax_multi_ops", 4608, 701, false, 701),
    class(3580, 10118, "float8_minmax_ops", 4070, 701, true, 701),
    class(3580, 10129, "inet_bloom_ops", 4585, 869, false, 869),
    class(3580, 10130, "inet_inclusion_ops", 4102, 869, true, 869),
    class(3580, 10128, "inet_minmax_multi_ops", 4611, 869, false, 869),
    class(3580, 10127, "inet_minmax_ops", 4075, 869, false, 869),
    class(3580, 10103, "int2_bloom_ops", 4572, 21, false, 21),
    class(3580, 10102, "int2_minmax_multi_ops", 4602, 21, false, 21),
    class(3580, 10101, "int2_minmax_ops", 4054, 21, true, 21),
    class(3580, 10106, "int4_bloom_ops", 4572, 23, false, 23),
    class(3580, 10105, "int4_minmax_multi_ops", 4602, 23, false, 23),
    class(3580, 10104, "int4_minmax_ops", 4054, 23, true, 23),
    class(3580, 10100, "int8_bloom_ops", 4572, 20, false, 20),
    class(3580, 10099, "int8_minmax_multi_ops", 4602, 20, false, 20),
    class(3580, 10098, "int8_minmax_ops", 4054, 20, true, 20),
    class(3580, 10147, "interval_bloom_ops", 4588, 1186, false, 1186),
    class(3580, 10146, "interval_minmax_multi_ops", 4613, 1186, false, 1186),
    class(3580, 10145, "interval_minmax_ops", 4078, 1186, true, 1186),
    class(3580, 10126, "macaddr8_bloom_ops", 4584, 774, false, 774),
    class(3580, 10125, "macaddr8_minmax_multi_ops", 4610, 774, false, 774),
    class(3580, 10124, "macaddr8_minmax_ops", 4109, 774, true, 774),
    class(3580, 10123, "macaddr_bloom_ops", 4583, 829, false, 829),
    class(3580, 10122, "macaddr_minmax_multi_ops", 4609, 829, false, 829),
    class(3580, 10121, "macaddr_minmax_ops", 4074, 829, true, 829),
    class(3580, 10097, "name_bloom_ops", 4579, 19, false, 19),
    class(3580, 10096, "name_minmax_ops", 4065, 19, true, 19),
    class(3580, 10155, "numeric_bloom_ops", 4574, 1700, false, 1700),
    class(3580, 10154, "numeric_minmax_multi_ops", 4603, 1700, false, 1700),
    class(3580, 10153, "numeric_minmax_ops", 4055, 1700, true, 1700),
    class(3580, 10111, "oid_bloom_ops", 4580, 26, false, 26),
    class(3580, 10110, "oid_minmax_multi_ops", 4606, 26, false, 26),
    class(3580, 10109, "oid_minmax_ops", 4068, 26, true, 26),
    class(3580, 10162, "pg_lsn_bloom_ops", 4590, 3220, false, 3220),
    class(3580, 10161, "pg_lsn_minmax_multi_ops", 4615, 3220, false, 3220),
    class(3580, 10160, "pg_lsn_minmax_ops", 4082, 3220, true, 3220),
    class(3580, 10159, "range_inclusion_ops", 4103, 3831, true, 3831),
    class(3580, 10108, "text_bloom_ops", 4573, 25, false, 25),
    class(3580, 10107, "text_minmax_ops", 4056, 25, true, 25),
    class(3580, 10113, "tid_bloom_ops", 4581, 27, false, 27),
    class(3580, 10114, "tid_minmax_multi_ops", 4607, 27, false, 27),
    class(3580, 10112, "tid_minmax_ops", 4069, 27, true, 27),
    class(3580, 10135, "time_bloom_ops", 4587, 1083, false, 1083),
    class(3580, 10134, "time_minmax_multi_ops", 4612, 1083, false, 1083),
    class(3580, 10133, "time_minmax_ops", 4077, 1083, true, 1083),
    class(3580, 10141, "timestamp_bloom_ops", 4576, 1114, false, 1114),
    class(3580, 10140, "timestamp_minmax_multi_ops", 4605, 1114, false, 1114),
    class(3580, 10139, "timestamp_minmax_ops", 4059, 1114, true, 1114),
    class(3580, 10144, "timestamptz_bloom_ops", 4576, 1184, false, 1184),
    class(3580, 10143, "timestamptz_minmax_multi_ops", 4605, 1184, false, 1184),
    class(3580, 10142, "timestamptz_minmax_ops", 4059, 1184, true, 1184),
    class(3580, 10150, "timetz_bloom_ops", 4575, 1266, false, 1266),
    class(3580, 10149, "timetz_minmax_multi_ops", 4604, 1266, false, 1266),
    class(3580, 10148, "timetz_minmax_ops", 4058, 1266, true, 1266),
    class(3580, 10158, "uuid_bloom_ops", 4589, 2950, false, 2950),
    class(3580, 10157, "uuid_minmax_multi_ops", 4614, 2950, false, 2950),
    class(3580, 10156, "uuid_minmax_ops", 4081, 2950, true, 2950),
    class(3580, 10152, "varbit_minmax_ops", 4080, 1562, true, 1562),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_classes_of_their_types() {
        let oid = |method, sql_type: &SqlType| default_class(method, sql_type).map(|class| class.oid);
        assert_eq!(oid("btree", &SqlType::Integer), Some(1978));
        assert_eq!(oid("hash", &SqlType::Integer), Some(10_020));
        assert_eq!(oid("btree", &SqlType::Varchar(None)), Some(3126));
        assert_eq!(oid("btree", &SqlType::array_of(SqlType::Integer)), Some(10_000));
        assert_eq!(oid("btree", &SqlType::Json), None);
        assert_eq!(oid("foo", &SqlType::Integer), None);
        let class = named_class("btree", "text_pattern_ops").unwrap();
        assert!(class.accepts(&SqlType::Text) && class.accepts(&SqlType::Varchar(None)));
        assert!(!class.accepts(&SqlType::Integer));
    }
}
