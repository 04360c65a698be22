"""The console, used as people use it: what is typed, pressed and clicked, and what is seen then."""
import base64
import json
import os
import threading
import urllib.error
import urllib.request

from browser import ALT, CTRL, SHIFT, Browser

ADDRESS = os.environ["CONSOLE"]
# A server whose users may not read everything.
GUARDED = os.environ["GUARDED"]
PICTURES = os.environ["PICTURES"]
LONG = "SELECT count(*) FROM generate_series(1::BIGINT, 300000) a(x), generate_series(1::BIGINT, 300000) b(y) WHERE x * y % 7 = 3"

browser = Browser()


def picture(name):
    # What moves has come to rest.
    browser.evaluate("new Promise((done) => setTimeout(done, 300))")
    browser.picture(f"{PICTURES}/{name}.png")


def write(sql, cursor=None):
    """Puts a text into the editor, as pasting does."""
    browser.evaluate("document.getElementById('sql').focus(); document.getElementById('sql').select()")
    browser.command("Input.insertText", text=sql)
    if cursor is not None:
        browser.evaluate(f"document.getElementById('sql').setSelectionRange({cursor}, {cursor})")


def run(sql, cursor=None, modifiers=CTRL):
    write(sql, cursor)
    browser.evaluate("document.getElementById('summary').textContent = ''")
    browser.key("Enter", modifiers)
    browser.until("document.getElementById('summary').textContent && document.getElementById('cancel').hidden")


def queries():
    with urllib.request.urlopen(f"{ADDRESS}/v1/queries") as answer:
        return json.load(answer)["queries"]


def login(user):
    """The header that says who asks: the password is the name."""
    return "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()


def told(*statements, address=ADDRESS, user=None):
    """Runs statements as one transaction, without the browser."""
    headers = {"Content-Type": "application/sql", "Diligence-Transaction": "true"} | ({"Authorization": login(user)} if user else {})
    urllib.request.urlopen(urllib.request.Request(f"{address}/v1/sql", ";\n".join(statements).encode(), headers)).read()


def ask(sql):
    """Runs one statement that no transaction may have."""
    urllib.request.urlopen(urllib.request.Request(f"{ADDRESS}/v1/sql", sql.encode(), {"Content-Type": "application/sql"})).read()


def texts(selector):
    return browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")


def part(name):
    """The rows of a part of the table that is looked at, by its heading: the texts of their cells."""
    return browser.evaluate(f"[...([...document.querySelectorAll('#inspectParts section')].find((part) => part.querySelector('h3').textContent.startsWith({json.dumps(name)})) "
                            "?.querySelectorAll('tbody tr') ?? [])].map((row) => [...row.children].map((cell) => cell.textContent))")


def listed():
    """The rows of the list of tables."""
    return browser.evaluate("[...document.querySelectorAll('#inspectRows tr')].map((row) => [...row.children].map((cell) => cell.textContent))")


def find(wanted, count):
    """Types into the box above the list of tables, and waits for what it says."""
    browser.evaluate("document.getElementById('inspectFilter').focus(); document.getElementById('inspectFilter').select()")
    browser.key("a", CTRL)
    browser.command("Input.insertText", text=wanted)
    browser.until(f"document.getElementById('inspectCount').textContent === {json.dumps(count)}")


def cells(row):
    return browser.evaluate(f"[...document.querySelectorAll('#table tr[data-row=\"{row}\"] td[data-column]')].map((cell) => cell.textContent)")


def the_page_is_alone():
    browser.size(1360, 860)
    browser.open(f"{ADDRESS}/")
    browser.until("document.querySelectorAll('.relation').length > 0")
    policy = urllib.request.urlopen(f"{ADDRESS}/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy, policy
    assert browser.evaluate("document.activeElement.id") == "sql"


def a_statement_is_run_and_shown():
    run("SELECT product, count(*) AS sold, sum(price) AS revenue\nFROM sales\nGROUP BY product\nORDER BY product;\n\nSELECT 2 AS other;", cursor=30)
    assert "12 rows" in browser.text("#summary"), browser.text("#summary")
    assert cells(0)[:2] == ["product 0", "250"], cells(0)
    assert browser.text("#scope") == "statement 1 of 2"
    picture("table")
    run("SELECT 1 AS one;\nSELECT 9007199254740993 AS large, CAST(1.50 AS DECIMAL(9,2)) AS price, NULL AS nothing, true AS flag, '<b>' AS text;", cursor=20)
    assert cells(0) == ["9007199254740993", "1.50", "NULL", "true", "<b>"], cells(0)


def many_rows_are_as_quick_as_few():
    run("SELECT * FROM generate_series(1, 50000) AS t(n)")
    assert "the first 10,000 rows; there are more" in browser.text("#summary"), browser.text("#summary")
    drawn = "document.querySelectorAll('#table tr[data-row]').length"
    assert browser.evaluate(drawn) < 120
    browser.evaluate("document.getElementById('table').scrollTop = 5000 * 28")
    browser.until("document.querySelector('#table tr[data-row=\"5000\"]')")
    assert cells(5000) == ["5001"]
    assert browser.evaluate(drawn) < 120


def an_error_stands_where_it_is():
    write("SELECT product,\n  pryce\nFROM sales")
    browser.key("Enter", CTRL)
    browser.until("!document.getElementById('message').hidden")
    message = browser.text("#message")
    assert "pryce" in message and "price" in message and "line 2, column 3" in message, message
    assert browser.text("pre .error") == "pryce"
    assert browser.text(".numbers .bad") == "2"
    picture("error")
    browser.type("x")
    assert browser.evaluate("document.querySelector('pre .error') === null")
    # The same in the second statement, and below EXPLAIN.
    write("SELECT 1;\nSELECT nowhere FROM sales", cursor=15)
    browser.key("Enter", CTRL | SHIFT)
    browser.until("!document.getElementById('message').hidden")
    assert "line 2, column 8" in browser.text("#message"), browser.text("#message")
    assert browser.text("pre .error") == "nowhere"


def completion_knows_the_tables():
    write("")
    browser.type("sel")
    browser.until("!document.getElementById('suggestions').hidden")
    browser.key("Tab")
    browser.type(" s. from sal")
    browser.until("document.querySelector('#suggestions [aria-selected=true] span')?.textContent === 'sales'")
    browser.key("Enter")
    browser.type(" s")
    browser.key("Escape")
    for _ in range(len(" from sales s")):
        browser.key("ArrowLeft")
    browser.type("pr")
    browser.until("!document.getElementById('suggestions').hidden")
    shown = browser.evaluate("[...document.querySelectorAll('#suggestions li span')].map((item) => item.textContent)")
    assert shown == ["price", "product"], shown
    picture("completion")
    browser.key("ArrowDown")
    assert browser.evaluate("document.getElementById('sql').getAttribute('aria-activedescendant')") == "suggestion-1"
    browser.key("Tab")
    assert browser.evaluate("document.getElementById('sql').value") == "select s.product from sales s"
    # Nothing is suggested within a text, and Tab leaves the editor.
    write("SELECT 'sal")
    browser.type("e")
    assert browser.evaluate("document.getElementById('suggestions').hidden")
    browser.key("Tab")
    assert browser.evaluate("document.activeElement.id") == "run", "Tab leaves the editor"


def a_chart_is_drawn():
    run("SELECT product, sum(price) AS revenue, sum(price) / 2 AS half FROM sales GROUP BY product ORDER BY 2 DESC")
    browser.click("#tab-chart")
    browser.until("document.querySelectorAll('#chart rect').length === 24")
    picture("bars")
    run("SELECT sold, sum(price) AS revenue FROM sales GROUP BY sold ORDER BY sold")
    browser.until("document.querySelectorAll('#chart .lines path').length === 1")
    picture("lines")
    browser.click("#tab-table")


def a_plan_is_drawn():
    run("SELECT maker, count(*) FROM sales JOIN makers ON sales.product = makers.product GROUP BY maker ORDER BY 2", modifiers=CTRL | SHIFT)
    browser.until("document.querySelectorAll('#plan .node').length >= 4")
    titles = browser.evaluate("[...document.querySelectorAll('#plan .node strong')].map((title) => title.firstChild.textContent)")
    assert "HashJoin Inner" in titles and titles.count("Scan") == 2, titles
    labels = browser.evaluate("[...document.querySelectorAll('#plan .edgeLabel')].map((label) => label.textContent)")
    assert "750 rows" in labels and "3 rows" in labels, labels
    assert "clusters read" in browser.text("#plan .facts")
    picture("plan")


def a_statement_is_cancelled():
    write(LONG)
    browser.key("Enter", CTRL)
    browser.until("!document.getElementById('running').hidden")
    assert any(query["state"] == "running" and query["statement"].startswith("SELECT count(*) FROM generate_series(1::BIGINT, 300000)") for query in queries())
    picture("running")
    browser.key("Escape")
    browser.until("document.getElementById('cancel').hidden")
    assert "Cancelled" in browser.text("#message")
    for _ in range(200):
        if not any(query["state"] == "running" for query in queries()):
            return
        browser.evaluate("new Promise((done) => setTimeout(done, 50))")
    raise AssertionError("the query runs on")


def the_board_shows_and_cancels():
    write(LONG)
    browser.key("Enter", CTRL)
    browser.key("2", ALT)
    browser.until("document.querySelector('#queries [data-cancel]')")
    names = browser.evaluate("[...document.querySelectorAll('#front h3')].map((name) => name.textContent)")
    assert names == ["parse", "optimize", "cheap", "heavy", "execute", "write", "disconnect"], names
    browser.until("document.querySelectorAll('#workers li.busy').length > 0")
    browser.until("document.querySelector('#front .curve path')")
    picture("board")
    browser.evaluate("document.querySelector('#queries [data-cancel]').focus()")
    browser.until("document.activeElement.dataset.cancel !== undefined")
    browser.key("Enter")
    browser.until("document.querySelector('#queries [data-cancel]') === null")
    assert browser.text("#queries .state") == "cancelled", browser.text("#queries")
    browser.evaluate("document.getElementById('tab-query').click()")
    browser.until("document.getElementById('cancel').hidden")


def a_query_that_waits_is_cancelled():
    codes = []

    def ask(sql):
        body = json.dumps({"sql": sql}).encode()
        request = urllib.request.Request(f"{ADDRESS}/v1/sql", body, {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            codes.append(json.load(error)["error"]["code"])

    # Equal statements would share one run.
    threads = [threading.Thread(target=ask, args=[LONG.replace("300000) b", f"{rows}) b")]) for rows in (300000, 300001)]
    for thread in threads:
        thread.start()
    browser.evaluate("document.getElementById('tab-board').click()")
    # Numbers below zero are of those who wait.
    for waits in ['[data-cancel^="-"]', '[data-cancel]:not([data-cancel^="-"])']:
        browser.until(f"document.querySelector('#queries {waits}')")
        browser.evaluate(f"document.querySelector('#queries {waits}').click()")
        browser.until(f"document.querySelector('#queries {waits}') === null")
    for thread in threads:
        thread.join(20)
    assert codes == ["57014", "57014"], codes
    browser.evaluate("document.getElementById('tab-query').click()")


STRANGE = 'Odd one.the "<b>table</b>'


def the_tables_are_listed():
    told('CREATE SCHEMA "Odd one"', "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
         """CREATE TABLE "Odd one"."the ""<b>table</b>" ("user" INTEGER PRIMARY KEY DEFAULT 7, "<i>x</i>" VARCHAR(20) NOT NULL DEFAULT '<u>y</u>',
            twice INTEGER GENERATED ALWAYS AS ("user" * 2) STORED, parent INTEGER REFERENCES parents, CONSTRAINT positive CHECK ("user" > 0))
            DISTRIBUTED BY HASH ("user") FRAGMENTS 4""",
         """CREATE INDEX on_parent ON "Odd one"."the ""<b>table</b>" (parent)""",
         """CREATE VIEW "Odd one"."order" AS SELECT "user" FROM "Odd one"."the ""<b>table</b>" WHERE "user" < 2000""")
    told("""INSERT INTO "Odd one"."the ""<b>table</b>" ("user") SELECT g FROM generate_series(1, 200000) g""")
    # A checkpoint moves so many rows to segments.
    ask("CHECKPOINT")
    told("""DELETE FROM "Odd one"."the ""<b>table</b>" WHERE "user" <= 1000""")
    browser.key("3", ALT)
    browser.until("document.querySelectorAll('#inspectRows button').length === 5")
    assert browser.text("#inspectCount") == "5", browser.text("#inspectCount")
    rows = {row[0]: row[1:] for row in listed()}
    assert set(rows) == {"makersexternal table", "salesexternal table", "parents", STRANGE, "Odd one.orderview"}, rows
    strange = rows[STRANGE]
    assert strange[0] == "199,000" and strange[2].endswith("iB") and int(strange[3]) >= 4 and strange[4] == "1,000" and strange[5].startswith("2 · "), strange
    assert rows["Odd one.orderview"] == ["–"] * 6, rows
    picture("tables")
    browser.evaluate("[...document.querySelectorAll('#inspectHead button')].find((head) => head.textContent === 'Rows').click()")
    browser.until("document.querySelector('#inspectHead [aria-sort]').textContent === 'Rows'")
    browser.until(f"document.querySelector('#inspectRows button').textContent === {json.dumps(STRANGE)}")
    find("ODD ONE.O", "1")
    assert [row[0] for row in listed()] == ["Odd one.orderview"], listed()
    find("%", "Nothing is called so.")
    find("<B>", "1")


def a_table_is_looked_at():
    browser.evaluate("document.querySelector('#inspectRows button').focus()")
    browser.key("Enter")
    browser.until("document.querySelectorAll('#inspectParts .firstRows tr[data-row]').length > 0")
    assert browser.text("#inspectName") == STRANGE and browser.evaluate("document.activeElement.id") == "inspectName"
    facts = texts("#inspectFacts dd")
    assert facts[0] == "table" and facts[1] == "199,000" and facts[5] == "1,000", facts
    assert part("Columns") == [["user", "integer", "yes", "7", ""], ["<i>x</i>", "character varying(20)", "yes", "'<u>y</u>'::character varying", ""],
                               ["twice", "integer", "", part("Columns")[2][3], ""], ["parent", "integer", "", "", ""]], part("Columns")
    assert part("Columns")[2][3].startswith("GENERATED ALWAYS AS (") and "* 2" in part("Columns")[2][3], part("Columns")
    names = [row[0] for row in part("Keys and indexes")]
    assert len(names) == 2 and "on_parent" in names, part("Keys and indexes")
    assert all(row[2] == "200,000" for row in part("Keys and indexes")), part("Keys and indexes")
    kinds = {row[0]: row[1:] for row in part("Constraints")}
    assert kinds["positive"][0] == "check" and sorted(kind for kind, _ in kinds.values()) == ["check", "foreign key", "primary key"], kinds
    assert any("REFERENCES parents(id)" in text for _, text in kinds.values()), kinds
    fragments = part("Fragments")
    assert len(fragments) == 4 and sum(int(row[4].replace(",", "")) for row in fragments) == 199000 and fragments[0][1] == "hash (user)", fragments
    # What data contain is text.
    assert browser.evaluate("document.querySelectorAll('#inspect :is(b, i, u)').length") == 0
    assert "<u>y</u>" in browser.text("#inspectParts .firstRows")
    picture("table-view")
    browser.evaluate("[...document.querySelectorAll('#inspectParts button')].find((button) => button.textContent === 'SELECT in the editor').click()")
    browser.until("!document.getElementById('query').hidden")
    assert browser.evaluate("document.getElementById('sql').value").endswith('SELECT * FROM "Odd one"."the ""<b>table</b>" LIMIT 100;')
    browser.evaluate("document.getElementById('summary').textContent = ''")
    browser.key("Enter", CTRL)
    browser.until("document.getElementById('summary').textContent.startsWith('100 rows')")


def a_view_and_a_parent_are_looked_at():
    browser.key("3", ALT)
    browser.until("!document.getElementById('inspectOne').hidden")
    browser.key("Escape")
    browser.until("document.activeElement.textContent === " + json.dumps(STRANGE))
    find("", "5")
    browser.click("#inspectRows [data-name=parents]")
    browser.until("document.querySelectorAll('#inspectParts h3').length >= 4")
    assert [row[0] for row in part("Referenced by")] == [STRANGE], part("Referenced by")
    browser.until("document.querySelector('#inspectParts [role=status]').textContent === 'There are no rows.'")
    browser.click("#inspectBack")
    browser.until("document.querySelectorAll('#inspectRows button').length === 5")
    browser.click("#inspectRows [data-name=order]")
    browser.until("document.querySelector('#inspectParts pre')")
    assert "2000" in browser.text("#inspectParts pre"), browser.text("#inspectParts pre")
    # A view may take long: its rows are read when somebody asks.
    assert browser.evaluate("document.querySelector('#inspectParts .firstRows').hidden")
    browser.evaluate("[...document.querySelectorAll('#inspectParts button')].find((button) => button.textContent === 'Read the first rows').click()")
    browser.until("document.querySelectorAll('#inspectParts .firstRows tr[data-row]').length > 0")
    # One that is gone meanwhile.
    told('DROP VIEW "Odd one"."order"')
    browser.key("2", ALT)
    browser.key("3", ALT)
    browser.until("document.querySelector('#inspectParts [role=alert]')")
    assert "is gone" in browser.text("#inspectParts"), browser.text("#inspectParts")
    browser.key("Escape")
    browser.until("document.activeElement.id === 'inspectFilter'")


def many_tables_are_shown_page_by_page():
    told("CREATE SCHEMA many", *[f"CREATE TABLE many.t{number:03} (a INTEGER)" for number in range(120)])
    browser.click("#inspectReload")
    browser.until("document.getElementById('inspectCount').textContent === '1–50 of 124'")
    find("many.", "1–50 of 120")
    browser.evaluate("[...document.querySelectorAll('#inspectHead button')][0].click()")
    browser.until("document.querySelector('#inspectRows button').textContent === 'many.t000'")
    assert len(listed()) == 50 and browser.evaluate("document.getElementById('inspectBefore').disabled")
    browser.click("#inspectAfter")
    browser.until("document.getElementById('inspectCount').textContent === '51–100 of 120'")
    browser.click("#inspectAfter")
    browser.until("document.getElementById('inspectCount').textContent === '101–120 of 120'")
    assert listed()[0][0] == "many.t100" and browser.evaluate("document.getElementById('inspectAfter').disabled")
    # Of fewer tables there is no such page.
    find("many.t11", "10")
    assert browser.evaluate("document.getElementById('inspectPages').hidden")
    told("DROP SCHEMA many CASCADE", 'DROP SCHEMA "Odd one" CASCADE', "DROP TABLE parents")
    find("", "2")
    browser.evaluate("document.getElementById('tab-query').click()")


def what_may_not_be_read_is_not_shown():
    """Another server, whose user `reader` may read one table, and no system tables."""
    def open_as(user):
        browser.command("Network.setExtraHTTPHeaders", headers={"Authorization": login(user)})
        browser.open(f"{GUARDED}/")
        browser.key("3", ALT)
        browser.until("document.getElementById('inspectCount').textContent")

    open_as("owner")
    assert browser.text("#inspectCount").startswith("There are no tables yet"), browser.text("#inspectCount")
    told("CREATE TABLE shown (a INTEGER PRIMARY KEY)", "INSERT INTO shown VALUES (1), (2)", "CREATE TABLE hidden (a INTEGER REFERENCES shown)",
         address=GUARDED, user="owner")
    browser.click("#inspectReload")
    browser.until("document.getElementById('inspectCount').textContent === '2'")
    assert [row[:2] for row in listed()] == [["hidden", "0"], ["shown", "2"]], listed()
    open_as("reader")
    assert listed() == [["shown"] + ["–"] * 6], listed()
    browser.click("#inspectRows button")
    browser.until("document.querySelectorAll('#inspectParts .firstRows tr[data-row]').length === 2")
    assert [row[0] for row in part("Columns")] == ["a"] and part("Referenced by") == [] and part("Fragments") == []
    assert "hidden" not in browser.text("#inspect"), browser.text("#inspect")
    picture("tables-of-a-reader")
    browser.command("Network.setExtraHTTPHeaders", headers={})
    browser.open(f"{ADDRESS}/")
    browser.until("document.querySelectorAll('.relation').length > 0")


def what_was_run_is_kept():
    browser.click("#tab-history")
    shown = browser.evaluate("[...document.querySelectorAll('.history code')].map((entry) => entry.textContent)")
    assert any(entry.startswith("SELECT count(*) FROM generate_series(1::BIGINT, 300000)") for entry in shown) and any("pryce" in entry for entry in shown), shown
    assert browser.evaluate("document.querySelectorAll('.history .failed').length") >= 2
    picture("history")
    kept = browser.evaluate("document.getElementById('sql').value")
    browser.open(f"{ADDRESS}/")
    browser.until("document.querySelectorAll('.relation').length > 0")
    assert browser.evaluate("document.getElementById('sql').value") == kept
    browser.click("#tab-history")
    browser.click(".history li:nth-child(2) button")
    assert browser.evaluate("document.getElementById('sql').value").startswith(kept)
    browser.click("#tab-tables")


def the_keyboard_goes_everywhere():
    browser.evaluate("document.querySelector('.skip').focus()")
    order = ["skip"]
    # Two for each table on the left.
    for _ in range(200):
        browser.key("Tab")
        order.append(browser.evaluate("document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
    wanted = ["skip", "tab-query", "theme", "tab-tables", "filter", "sql", "run", "explain", "splitter", "tab-table", "table"]
    places = [order.index(name) for name in wanted]
    assert places == sorted(places), list(zip(wanted, places))
    browser.evaluate("document.getElementById('tab-query').focus()")
    browser.key("ArrowRight")
    assert browser.evaluate("!document.getElementById('board').hidden && document.activeElement.id === 'tab-board'")
    browser.key("ArrowLeft")
    before = browser.evaluate("document.getElementById('editor').clientHeight")
    browser.evaluate("document.getElementById('splitter').focus()")
    browser.key("ArrowDown")
    assert browser.evaluate("document.getElementById('editor').clientHeight") > before


def it_fits_where_it_is_dark_or_narrow():
    fits = "document.documentElement.scrollWidth <= innerWidth && document.getElementById('board').scrollWidth <= innerWidth"
    run("SELECT * FROM sales LIMIT 200")
    browser.size(1360, 860, dark=True)
    picture("dark")
    light = "getComputedStyle(document.body).backgroundColor"
    dark = browser.evaluate(light)
    browser.size(390, 800)
    assert browser.evaluate(light) != dark
    assert browser.evaluate(fits)
    picture("narrow")
    browser.click("#showSide")
    browser.until("document.getElementById('side').getBoundingClientRect().left === 0")
    picture("narrow-tables")
    browser.key("Escape")
    browser.until("document.getElementById('side').getBoundingClientRect().right <= 0")
    browser.key("2", ALT)
    browser.until("document.querySelectorAll('#front li').length === 7")
    assert browser.evaluate(fits)
    picture("narrow-board")
    browser.key("3", ALT)
    browser.until("document.querySelectorAll('#inspectRows button').length === 2")
    assert browser.evaluate(fits) and browser.evaluate("document.getElementById('inspect').scrollWidth <= innerWidth")
    picture("narrow-tables-view")


try:
    for test in [the_page_is_alone, a_statement_is_run_and_shown, many_rows_are_as_quick_as_few, an_error_stands_where_it_is, completion_knows_the_tables,
                 a_chart_is_drawn, a_plan_is_drawn, a_statement_is_cancelled, the_board_shows_and_cancels, a_query_that_waits_is_cancelled,
                 the_tables_are_listed, a_table_is_looked_at, a_view_and_a_parent_are_looked_at, many_tables_are_shown_page_by_page,
                 what_was_run_is_kept, the_keyboard_goes_everywhere,
                 it_fits_where_it_is_dark_or_narrow, what_may_not_be_read_is_not_shown]:
        test()
        print("ok", test.__name__.replace("_", " "))
    # A statement that is wrong is answered with 400, which the browser logs; nothing else may go wrong.
    complaints = [text for text in browser.complaints if "/v1/sql" not in text]
    assert not complaints, complaints
    elsewhere = {address for address in browser.events if not address.startswith((ADDRESS, GUARDED, "about:", "data:", "blob:"))}
    assert not elsewhere, elsewhere
    print("the console works")
except BaseException:
    browser.picture(f"{PICTURES}/failed.png")
    raise
finally:
    browser.close()
