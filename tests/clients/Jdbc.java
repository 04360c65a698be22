// pgjdbc against a server: metadata, prepared statements past the point where they go binary, cursors, batches, COPY, cancel, times.
//   java -cp postgresql.jar Jdbc.java PART HOST:PORT [CERTIFICATE]     PART: plain, password, encrypted; recorded for record.py

import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.atomic.AtomicReference;

public class Jdbc {
    static String place;

    interface Part { void run(Connection connection) throws Exception; }

    static Connection connect(String... settings) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", "ann");
        for (int index = 0; index < settings.length; index += 2) properties.put(settings[index], settings[index + 1]);
        return DriverManager.getConnection("jdbc:postgresql://" + place + "/diligence", properties);
    }

    static void part(String name, Part part, String... settings) throws Exception {
        try (Connection connection = connect(settings)) {
            part.run(connection);
        } catch (Throwable error) {
            throw new Exception("pgjdbc: " + name, error);
        }
        System.out.println("ok pgjdbc " + name);
    }

    static void same(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) throw new AssertionError("found " + found + " rather than " + wanted);
    }

    static void fails(String state, Part part, Connection connection) throws Exception {
        try {
            part.run(connection);
        } catch (SQLException error) {
            same(error.getSQLState(), state);
            return;
        }
        throw new AssertionError("did not fail with " + state);
    }

    static List<String> rows(ResultSet rows, String... columns) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            StringJoiner row = new StringJoiner(" ");
            for (String column : columns) row.add(String.valueOf(rows.getString(column)));
            found.add(row.toString());
        }
        return found;
    }

    static Object one(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getObject(1);
        }
    }

    static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    static void metadata(Connection connection) throws Exception {
        execute(connection, "CREATE TABLE jdbc_types (whole INT NOT NULL, large BIGINT, money DECIMAL(12, 2), name VARCHAR, day DATE, at TIMESTAMP, flag BOOLEAN, ratio DOUBLE)");
        execute(connection, "CREATE VIEW jdbc_view AS SELECT whole, name FROM jdbc_types");
        DatabaseMetaData data = connection.getMetaData();
        same(data.getDatabaseProductName(), "PostgreSQL");
        same(rows(data.getSchemas(), "TABLE_SCHEM").contains("public"), true);
        same(rows(data.getCatalogs(), "TABLE_CAT"), List.of("diligence"));
        same(rows(data.getTables(null, "public", "jdbc%", null), "TABLE_NAME", "TABLE_TYPE"), List.of("jdbc_types TABLE", "jdbc_view VIEW"));
        same(rows(data.getTables(null, null, "items", new String[] {"TABLE", "VIEW", "FOREIGN TABLE"}), "TABLE_SCHEM", "TABLE_NAME"), List.of("public items"));
        same(rows(data.getColumns(null, "public", "jdbc_types", null), "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "ORDINAL_POSITION"), List.of(
            "whole int4 4 10 0 0 1", "large int8 -5 19 0 1 2", "money numeric 2 12 2 1 3", "name varchar 12 2147483647 0 1 4",
            "day date 91 13 0 1 5", "at timestamp 93 29 6 1 6", "flag bool -7 1 0 1 7", "ratio float8 8 17 17 1 8"));
        same(rows(data.getPrimaryKeys(null, "public", "jdbc_types"), "COLUMN_NAME"), List.of());
        same(rows(data.getImportedKeys(null, "public", "jdbc_types"), "FKCOLUMN_NAME"), List.of());
        same(rows(data.getIndexInfo(null, "public", "jdbc_types", false, true), "INDEX_NAME"), List.of());
        same(rows(data.getTableTypes(), "TABLE_TYPE").contains("VIEW"), true);
        same(rows(data.getProcedures(null, null, "no%"), "PROCEDURE_NAME"), List.of());
        same(rows(data.getTypeInfo(), "TYPE_NAME").contains("int8"), true);
        try (PreparedStatement statement = connection.prepareStatement("SELECT money, name AS n FROM jdbc_types WHERE whole = ?")) {
            ResultSetMetaData columns = statement.getMetaData();
            same(columns.getColumnCount(), 2);
            same(columns.getColumnTypeName(1) + columns.getPrecision(1) + columns.getScale(1), "numeric122");
            same(columns.getColumnLabel(2) + columns.getColumnClassName(2), "njava.lang.String");
            same(statement.getParameterMetaData().getParameterTypeName(1), "int4");
        }
        execute(connection, "DROP VIEW jdbc_view");
        execute(connection, "DROP TABLE jdbc_types");
    }

    /** Ten times each: from the fifth on the statement has a name, and the rows are binary. */
    static void prepared(Connection connection) throws Exception {
        OffsetDateTime moment = OffsetDateTime.of(2024, 2, 29, 12, 30, 1, 5000, ZoneOffset.UTC);
        Object[][] values = {
            {"BIGINT", 1L << 40}, {"INT", -5}, {"VARCHAR", "a'b\\é"}, {"DOUBLE", 0.1}, {"BOOLEAN", true},
            {"DATE", LocalDate.of(2024, 2, 29)}, {"DATE", LocalDate.of(1969, 7, 20)}, {"TIMESTAMP", LocalDateTime.of(2024, 2, 29, 12, 30, 1, 5000)},
            {"TIME", LocalTime.of(23, 59, 58)}, {"TIMESTAMPTZ", moment}, {"NUMERIC(20, 5)", new BigDecimal("-12345.67800")},
            {"NUMERIC(30, 10)", new BigDecimal("12345678901234567890.0000000001")},
        };
        for (Object[] value : values) {
            try (PreparedStatement statement = connection.prepareStatement("SELECT CAST(? AS " + value[0] + ") AS v, ? IS NULL")) {
                for (int round = 0; round < 10; round++) {
                    statement.setObject(1, value[1]);
                    statement.setNull(2, Types.BIGINT);
                    try (ResultSet rows = statement.executeQuery()) {
                        same(rows.next(), true);
                        same(rows.getObject(1, value[1].getClass()), value[1]);
                        same(rows.getBoolean(2), true);
                        same(rows.next(), false);
                    }
                }
            }
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT CAST(? AS BYTEA), CAST(? AS BIGINT), real '1.5'")) {
            for (int round = 0; round < 10; round++) {
                statement.setBytes(1, new byte[] {0, -1});
                statement.setNull(2, Types.BIGINT);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    same(Arrays.toString(rows.getBytes(1)), "[0, -1]");
                    same(rows.getLong(2), 0L);
                    same(rows.wasNull(), true);
                    same(rows.getFloat(3), 1.5f);
                }
            }
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT name FROM items WHERE id = ? AND price > ?")) {
            for (int round = 0; round < 10; round++) {
                statement.setInt(1, 2);
                statement.setBigDecimal(2, new BigDecimal("1.5"));
                same(rows(statement.executeQuery(), "name"), List.of("two"));
            }
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT make_array(1, 2, NULL), interval '1 month 2 days'")) {
            for (int round = 0; round < 10; round++) {
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    same(Arrays.toString((Object[]) rows.getArray(1).getArray()), "[1, 2, null]");
                    same(rows.getObject(2).toString(), "0 years 1 mons 2 days 0 hours 0 mins 0.0 secs");
                }
            }
        }
    }

    static void times(Connection connection) throws Exception {
        try (PreparedStatement statement = connection.prepareStatement("SELECT CAST(? AS TIMESTAMP), CAST(? AS DATE), CAST(? AS TIMESTAMPTZ)")) {
            Timestamp local = Timestamp.valueOf("2024-07-01 08:09:10.123456");
            for (int round = 0; round < 10; round++) {
                statement.setTimestamp(1, local);
                statement.setDate(2, java.sql.Date.valueOf("1900-03-01"));
                statement.setTimestamp(3, local);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    same(rows.getTimestamp(1), local);
                    same(rows.getDate(2), java.sql.Date.valueOf("1900-03-01"));
                    same(rows.getTimestamp(3), local);
                }
            }
        }
    }

    static void cursors(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("SELECT value FROM generate_series(1::BIGINT, 20000) AS g(value) WHERE value <= ? ORDER BY value")) {
            for (int round = 0; round < 7; round++) {
                statement.setFetchSize(100);
                statement.setInt(1, 10_050);
                long sum = 0;
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) sum += rows.getLong(1);
                }
                same(sum, 10_050L * 10_051 / 2);
                // One that is left in the middle.
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    same(rows.getLong(1), 1L);
                }
            }
            statement.setMaxRows(7);
            same(rows(statement.executeQuery(), "value").size(), 7);
        }
        execute(connection, "CREATE TABLE jdbc_no (a INT)");
        fails("42P07", it -> execute(it, "CREATE TABLE jdbc_no (a INT)"), connection);
        fails("25P02", it -> execute(it, "SELECT 1"), connection);
        connection.rollback();
        Savepoint point = connection.setSavepoint("here");
        connection.rollback(point);
        connection.commit();
        connection.setReadOnly(true);
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        same(one(connection, "SELECT 1"), 1);
        connection.commit();
    }

    static void batches(Connection connection) throws Exception {
        execute(connection, "CREATE TABLE jdbc_batch (a BIGINT, b VARCHAR)");
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO jdbc_batch VALUES (?, ?)")) {
            for (int row = 0; row < 50; row++) {
                statement.setLong(1, row);
                statement.setString(2, row % 7 == 0 ? null : "row " + row);
                statement.addBatch();
            }
            same(Arrays.stream(statement.executeBatch()).allMatch(count -> count == 1 || count == Statement.SUCCESS_NO_INFO), true);
        }
        same(one(connection, "SELECT count(*) FROM jdbc_batch WHERE b IS NOT NULL"), 42L);
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("INSERT INTO jdbc_batch VALUES (100, 'x')");
            statement.addBatch("INSERT INTO jdbc_batch VALUES (101, 'y'), (102, 'z')");
            same(Arrays.toString(statement.executeBatch()), "[1, 2]");
            same(statement.executeUpdate("INSERT INTO jdbc_batch SELECT a + 1000, b FROM jdbc_batch WHERE a < 10"), 10);
            // Several statements in one, with several results.
            same(statement.execute("SELECT 1; SELECT 2"), true);
            same(statement.getMoreResults(), true);
            same(rows(statement.getResultSet(), "?column?").size(), 1);
        }
        var copy = connection.unwrap(org.postgresql.PGConnection.class).getCopyAPI();
        same(copy.copyIn("COPY jdbc_batch FROM STDIN (FORMAT CSV)", new java.io.StringReader("200,\"a,b\"\n201,\n")), 2L);
        var written = new java.io.StringWriter();
        copy.copyOut("COPY (SELECT a, b FROM jdbc_batch WHERE a BETWEEN 200 AND 201 ORDER BY a) TO STDOUT", written);
        same(written.toString(), "200\ta,b\n201\t\\N\n");
        execute(connection, "DROP TABLE jdbc_batch");
    }

    static final String ENDLESS = "SELECT count(*) FROM generate_series(1::BIGINT, 10000000) a(value), generate_series(1::BIGINT, 100000) b(value)";

    static void cancelled(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            AtomicReference<Throwable> failure = new AtomicReference<>();
            Thread thread = new Thread(() -> {
                try {
                    Thread.sleep(500);
                    statement.cancel();
                } catch (Throwable error) {
                    failure.set(error);
                }
            });
            thread.start();
            fails("57014", it -> statement.executeQuery(ENDLESS), connection);
            thread.join();
            same(failure.get(), null);
            statement.setQueryTimeout(1);
            fails("57014", it -> statement.executeQuery(ENDLESS), connection);
            statement.setQueryTimeout(0);
            same(connection.isValid(5), true);
        }
        connection.setNetworkTimeout(Runnable::run, 20_000);
        same(one(connection, "SELECT 'alive'"), "alive");
    }

    static void errors(Connection connection) throws Exception {
        fails("42P01", it -> execute(it, "SELECT * FROM no_such_table"), connection);
        fails("42703", it -> execute(it, "SELECT no_such_column FROM items"), connection);
        fails("22012", it -> execute(it, "SELECT 1 / (id - 1) FROM items"), connection);
        fails("42601", it -> execute(it, "SELEC 1"), connection);
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT wrong FROM items");
        } catch (org.postgresql.util.PSQLException error) {
            same(error.getServerErrorMessage().getPosition(), 8);
        }
    }

    /** A little of everything, on one connection. */
    static void recorded(Connection connection) throws Exception {
        try (PreparedStatement statement = connection.prepareStatement("SELECT name, price FROM items WHERE id = ?")) {
            for (int round = 0; round < 6; round++) {
                statement.setInt(1, 2);
                same(rows(statement.executeQuery(), "name").size(), 1);
            }
        }
        DatabaseMetaData data = connection.getMetaData();
        same(rows(data.getTables(null, "public", "items", null), "TABLE_NAME"), List.of("items"));
        same(rows(data.getColumns(null, "public", "items", null), "COLUMN_NAME").size(), 3);
        same(rows(data.getPrimaryKeys(null, "public", "items"), "COLUMN_NAME"), List.of());
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(2);
            same(rows(statement.executeQuery("SELECT value FROM generate_series(1::BIGINT, 5) AS g(value) ORDER BY value"), "value").size(), 5);
        }
        connection.commit();
        connection.setAutoCommit(true);
        fails("42703", it -> execute(it, "SELECT nothing FROM items"), connection);
    }

    public static void main(String[] arguments) throws Exception {
        place = arguments[1];
        // Somewhere that is not UTC, and has a summer time.
        TimeZone.setDefault(TimeZone.getTimeZone("Europe/Berlin"));
        switch (arguments[0]) {
            case "plain" -> {
                part("metadata", Jdbc::metadata);
                part("prepared statements", Jdbc::prepared);
                part("prepared statements in binary at once", Jdbc::prepared, "prepareThreshold", "-1");
                part("simple protocol", connection -> same(one(connection, "SELECT 1"), 1), "preferQueryMode", "simple");
                part("times", Jdbc::times);
                part("cursors", Jdbc::cursors);
                part("batches", Jdbc::batches);
                part("batches that are one statement", Jdbc::batches, "reWriteBatchedInserts", "true");
                part("cancel", Jdbc::cancelled);
                part("errors", Jdbc::errors);
                part("settings", connection -> same(one(connection, "SELECT current_setting('application_name')"), "me"), "ApplicationName", "me");
            }
            case "recorded" -> part("recorded", Jdbc::recorded, "sslmode", "disable", "gssEncMode", "disable");
            case "password" -> {
                part("password", connection -> same(one(connection, "SELECT current_user"), "ann"), "password", "secret");
                try (Connection connection = connect("password", "wrong")) {
                    throw new AssertionError("a wrong password");
                } catch (SQLException error) {
                    same(error.getSQLState(), "28P01");
                }
            }
            case "encrypted" -> {
                place = place.replace("127.0.0.1", "localhost");
                part("encryption", connection -> same(one(connection, "SELECT 1"), 1), "sslmode", "require");
                part("encryption, verified", connection -> same(one(connection, "SELECT count(*) FROM generate_series(1::BIGINT, 100000) AS g(value)"), 100000L), "sslmode", "verify-full", "sslrootcert", arguments[2]);
                part("cancel while encrypted", Jdbc::cancelled, "sslmode", "require");
                try (Connection connection = connect("sslmode", "disable")) {
                    throw new AssertionError("served in the clear");
                } catch (SQLException error) {
                    same(error.getMessage().contains("encrypted"), true);
                }
            }
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }
}
