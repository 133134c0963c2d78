"""The queries of Nexmark as views run them, and what DuckDB is asked instead where it must be.

Texts are those of the published Flink queries. What differs in spelling, query by query:

q0 to q23   `x` is written as PostgreSQL quotes, columns dateTime and so on are declared in quotes
q6          as it is meant: the published text is no valid SQL, and no engine runs it
q12         PROCTIME() is the default of a column of bid: DEFAULT NOW()
q13         the side input is AS OF PROCTIME(), not of a column that has PROCTIME(), and static
q14         count_char is a function of the user's
q23         A.dateTime, emailAddress and so on in quotes: Flink tells a from A without them
"""

from __future__ import annotations


def count_char(text: str, character: str) -> int:
    """How often a character is in a text: q14 calls it by `db.function`."""
    return text.count(character)


TABLES = """
CREATE STREAM person (id BIGINT, name VARCHAR, "emailAddress" VARCHAR, "creditCard" VARCHAR,
  city VARCHAR, state VARCHAR, "dateTime" TIMESTAMP, extra VARCHAR);
CREATE STREAM auction (id BIGINT, "itemName" VARCHAR, description VARCHAR, "initialBid" BIGINT,
  reserve BIGINT, "dateTime" TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT,
  extra VARCHAR);
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,
  "dateTime" TIMESTAMP, extra VARCHAR, p_time TIMESTAMP DEFAULT NOW());
CREATE TABLE side_input (key BIGINT PRIMARY KEY, value VARCHAR) WITH (static = true);
"""

_STATISTICS = """
     count(*) AS total_bids,
     count(*) filter (where price < 10000) AS rank1_bids,
     count(*) filter (where price >= 10000 and price < 1000000) AS rank2_bids,
     count(*) filter (where price >= 1000000) AS rank3_bids"""
_DISTINCT = """,
     count(distinct bidder) AS total_bidders,
     count(distinct bidder) filter (where price < 10000) AS rank1_bidders,
     count(distinct bidder) filter (where price >= 10000 and price < 1000000) AS rank2_bidders,
     count(distinct bidder) filter (where price >= 1000000) AS rank3_bidders,
     count(distinct auction) AS total_auctions,
     count(distinct auction) filter (where price < 10000) AS rank1_auctions,
     count(distinct auction) filter (where price >= 10000 and price < 1000000) AS rank2_auctions,
     count(distinct auction) filter (where price >= 1000000) AS rank3_auctions"""
_CHANNEL = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_TEN = "INTERVAL '10' SECOND"
_HOP = f"""SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
     FROM TABLE(HOP(TABLE bid, DESCRIPTOR("dateTime"), INTERVAL '2' SECOND, {_TEN}))
     GROUP BY auction, window_start, window_end"""
_HIGHEST = """SELECT A.id, A.seller, B.price, B."dateTime" FROM auction AS A, bid AS B
     WHERE A.id = B.auction and B."dateTime" between A."dateTime" and A.expires"""

QUERIES = {
    "q0": 'SELECT auction, bidder, price, "dateTime", extra FROM bid',
    "q1": 'SELECT auction, bidder, 0.908 * price as price, "dateTime", extra FROM bid',
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """SELECT P.name, P.city, P.state, A.id
FROM auction AS A INNER JOIN person AS P on A.seller = P.id
WHERE A.category = 10 and (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": """SELECT Q.category, AVG(Q.final) FROM (
    SELECT MAX(B.price) AS final, A.category FROM auction A, bid B
    WHERE A.id = B.auction AND B."dateTime" BETWEEN A."dateTime" AND A.expires
    GROUP BY A.id, A.category) Q GROUP BY Q.category""",
    "q5": f"""SELECT AuctionBids.auction, AuctionBids.num FROM ({_HOP}) AS AuctionBids
 JOIN (SELECT max(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime
   FROM ({_HOP.replace("auction, count", "count")}) AS CountBids
   GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids
 ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
 AND AuctionBids.num >= MaxBids.maxn""",
    "q6": f"""SELECT Q.seller, AVG(Q.price) OVER (PARTITION BY Q.seller
      ORDER BY Q."dateTime", Q.id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
FROM (SELECT * FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY id, seller ORDER BY price DESC, "dateTime") AS rownum
    FROM ({_HIGHEST}) W) R WHERE rownum <= 1) AS Q""",
    "q7": f"""SELECT B.auction, B.price, B.bidder, B."dateTime", B.extra from bid B
JOIN (SELECT MAX(price) AS maxprice, window_end as "dateTime"
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR("dateTime"), {_TEN}))
  GROUP BY window_start, window_end) B1
ON B.price = B1.maxprice WHERE B."dateTime" BETWEEN B1."dateTime" - {_TEN} AND B1."dateTime" """,
    "q8": f"""SELECT P.id, P.name, P.starttime
FROM (SELECT id, name, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR("dateTime"), {_TEN}))
  GROUP BY id, name, window_start, window_end) P
JOIN (SELECT seller, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR("dateTime"), {_TEN}))
  GROUP BY seller, window_start, window_end) A
ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
    "q9": """SELECT id, "itemName", description, "initialBid", reserve, "dateTime", expires, seller,
    category, extra, auction, bidder, price, bid_dateTime, bid_extra
FROM (SELECT A.*, B.auction, B.bidder, B.price, B."dateTime" AS bid_dateTime, B.extra AS bid_extra,
     ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B."dateTime" ASC) AS rownum
   FROM auction A, bid B
   WHERE A.id = B.auction AND B."dateTime" BETWEEN A."dateTime" AND A.expires)
WHERE rownum <= 1""",
    "q10": """SELECT auction, bidder, price, "dateTime", extra,
 DATE_FORMAT("dateTime", 'yyyy-MM-dd'), DATE_FORMAT("dateTime", 'HH:mm') FROM bid""",
    "q11": f"""SELECT B.bidder, count(*) as bid_count,
    SESSION_START(B."dateTime", {_TEN}) as starttime, SESSION_END(B."dateTime", {_TEN}) as endtime
FROM bid B GROUP BY B.bidder, SESSION(B."dateTime", {_TEN})""",
    "q12": f"""SELECT bidder, count(*) as bid_count, window_start AS starttime,
    window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(p_time), {_TEN}))
GROUP BY bidder, window_start, window_end""",
    "q13": """SELECT B.auction, B.bidder, B.price, B."dateTime", S.value
FROM bid B JOIN side_input FOR SYSTEM_TIME AS OF PROCTIME() AS S
ON mod(B.auction, 10000) = S.key""",
    "q14": """SELECT auction, bidder, 0.908 * price as price,
    CASE WHEN HOUR("dateTime") >= 8 AND HOUR("dateTime") <= 18 THEN 'dayTime'
        WHEN HOUR("dateTime") <= 6 OR HOUR("dateTime") >= 20 THEN 'nightTime'
        ELSE 'otherTime' END AS bidTimeType,
    "dateTime", extra, count_char(extra, 'c') AS c_counts
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"""SELECT DATE_FORMAT("dateTime", 'yyyy-MM-dd') as "day", {_STATISTICS}{_DISTINCT}
FROM bid GROUP BY DATE_FORMAT("dateTime", 'yyyy-MM-dd')""",
    "q16": f"""SELECT channel, DATE_FORMAT("dateTime", 'yyyy-MM-dd') as "day",
     max(DATE_FORMAT("dateTime", 'HH:mm')) as "minute", {_STATISTICS}{_DISTINCT}
FROM bid GROUP BY channel, DATE_FORMAT("dateTime", 'yyyy-MM-dd')""",
    "q17": f"""SELECT auction, DATE_FORMAT("dateTime", 'yyyy-MM-dd') as "day", {_STATISTICS},
     min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price,
     sum(price) AS sum_price
FROM bid GROUP BY auction, DATE_FORMAT("dateTime", 'yyyy-MM-dd')""",
    "q18": """SELECT auction, bidder, price, channel, url, "dateTime", extra
 FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY "dateTime" DESC)
       AS rank_number FROM bid) WHERE rank_number <= 1""",
    "q19": """SELECT * FROM
(SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid)
WHERE rank_number <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, B."dateTime", B.extra, "itemName",
  description, "initialBid", reserve, A."dateTime", expires, seller, category, A.extra
FROM bid AS B INNER JOIN auction AS A on B.auction = A.id WHERE A.category = 10""",
    "q21": f"""SELECT auction, bidder, price, channel,
    CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
        WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
        ELSE {_CHANNEL} END AS channel_id FROM bid
    where {_CHANNEL} is not null or lower(channel) in ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) as dir1,
    SPLIT_INDEX(url, '/', 4) as dir2, SPLIT_INDEX(url, '/', 5) as dir3 FROM bid""",
    "q23": """SELECT bidder, price, channel, url, B.extra AS bid_extra, P.id AS person_id, name,
       "emailAddress", "creditCard", city, state, P.extra AS person_extra, "itemName", description,
       "initialBid", reserve, A."dateTime" AS auction_dateTime, expires, seller, category,
       A.extra AS auction_extra
FROM bid B JOIN person P ON P.id = B.bidder JOIN auction A ON A.seller = B.bidder""",
}

_WINDOWED = """(SELECT *, time_bucket(INTERVAL 10 SECOND, "dateTime") AS window_start,
  time_bucket(INTERVAL 10 SECOND, "dateTime") + INTERVAL 10 SECOND AS window_end FROM {})"""
_HOPPED = """(SELECT *, w AS window_start, w + INTERVAL 10 SECOND AS window_end
  FROM bid, LATERAL (SELECT time_bucket(INTERVAL 2 SECOND, "dateTime") - INTERVAL (b) SECOND AS w
                     FROM (VALUES (0), (2), (4), (6), (8)) x(b)))"""


def in_duckdb(name: str) -> str:
    """The same question, without what DuckDB does not have."""
    text = QUERIES[name]
    for table in ("bid", "person", "auction"):
        call = f'TABLE(TUMBLE(TABLE {table}, DESCRIPTOR("dateTime"), {_TEN}))'
        text = text.replace(call, _WINDOWED.format(table))
    arrivals = f"TABLE(TUMBLE(TABLE bid, DESCRIPTOR(p_time), {_TEN}))"
    text = text.replace(arrivals, _WINDOWED.format("bid").replace('"dateTime"', "p_time"))
    hop = f"""TABLE(HOP(TABLE bid, DESCRIPTOR("dateTime"), INTERVAL '2' SECOND, {_TEN}))"""
    text = text.replace(hop, _HOPPED)
    for pattern, other in (("yyyy-MM-dd", "%Y-%m-%d"), ("HH:mm", "%H:%M")):
        text = text.replace(
            f"""DATE_FORMAT("dateTime", '{pattern}')""", f"""strftime("dateTime", '{other}')"""
        )
    for n in (3, 4, 5):
        split = f"split(url, '/')[{n + 1}]"
        text = text.replace(f"SPLIT_INDEX(url, '/', {n})", split)
    text = text.replace("FOR SYSTEM_TIME AS OF PROCTIME()", "")
    text = text.replace("count_char(extra, 'c')", "len(extra) - len(replace(extra, 'c', ''))")
    if name == "q11":  # a session begins where no other bid is within ten seconds before
        text = f"""WITH starts AS (SELECT bidder, "dateTime" AS t FROM bid B
  WHERE NOT EXISTS (SELECT * FROM bid O WHERE O.bidder = B.bidder AND O."dateTime" < B."dateTime"
                    AND O."dateTime" >= B."dateTime" - {_TEN}) GROUP BY ALL)
SELECT B.bidder, count(*), S.t, max(B."dateTime") + {_TEN} FROM bid B JOIN starts S
ON S.bidder = B.bidder AND S.t = (SELECT max(t) FROM starts L
                                  WHERE L.bidder = B.bidder AND L.t <= B."dateTime")
GROUP BY B.bidder, S.t"""
    if name == "q19":  # ties of the last place may be broken in any way
        text = text.replace("ORDER BY price DESC", 'ORDER BY price DESC, "dateTime"')
    return text
