"""Hand-written programs, one for each thing that kernels must do."""

JOIN = """
relation r(a: INTEGER not null, b: INTEGER, c: DECIMAL(12,2) not null)
relation s(b: INTEGER, d: VARCHAR)
map q[a: int](count: int, total: int)
map mr[b: int?, a: int](count: int, total: int)
map ms[b: int?](count: int)
on r:
  q[a] += Δr(a, b, c) * ms[b].count | count: 1, total: [c]
  mr[b, a] += Δr(a, b, c) | count: 1, total: [c]
on s:
  q[a] += Δs(b, d) * {like(d, 'x%')} * mr[b, a].count | count: 1
  q[a] += Δs(b, d) * {like(d, 'x%')} * mr[b, a].total | total: 1
  ms[b] += Δs(b, d) * {like(d, 'x%')}
    | count: 1
"""

BUFFERED = """
relation r(a: INTEGER not null, b: INTEGER not null, c: BIGINT not null)
relation s(b: INTEGER not null, e: INTEGER not null)
buffer dr[a: int, b: int](value: int)
buffer ds[b: int](value: int)
map q[a: int, e: int](value: int)
map mr[a: int, b: int](value: int)
map ms[b: int, e: int](value: int)
on r:
  dr[a, b] += Δr(a, b, c) * {c > 0} | value: c
  q[a, e] += dr[a, b] * ms[b, e]
  mr[a, b] += dr[a, b]
on s:
  ds[b] += Δs(b, e)
  q[a, e] += Δs(b, e) * {e < 4} * mr[a, b]
  ms[b, e] += Δs(b, e) * {e < 4}
"""

DOUBLES = """
relation r(a: INTEGER not null, x: DOUBLE, y: DOUBLE not null)
map q[a: int](count: int, xy: float, x: float)
map m[y: float](total: float)
map t[](sum: float)
map z[](w: float)
on r:
  z[] += Δr(a, x, y) * t[].sum | w: [y]
  q[a] += Δr(a, x, y) | count: 1, xy: [x] * [y], x: [x] + [to_float(a)]
  m[y] += Δr(a, x, y) * {y > 0.0} | total: [coalesce(x, 0.5)]
  t[] += Δr(a, x, y) | sum: [y] * 3
"""

STRINGS = """
relation r(s: VARCHAR, t: VARCHAR not null, a: INTEGER)
map q[p: str?, t: str](count: int)
map less[](n: int)
map same[s: str?](n: int)
map k[t: str](n: int)
on r:
  q[p, t] += Δr(s, t, a) * (p := [substring(s, 1, 1)]) | count: 1
  less[] += Δr(s, t, a) * {s < t} | n: 1
  less[] += Δr(s, t, a) * {case(s = 'xa', 'b', t) >= 'b' or a = 2} | n: 3
  same[s] += Δr(s, t, a) * {s = t or is_null(s)} | n: 1
  k[t] += Δr(s, t, a) * {not(in(t, 'b', 'xb'))} | n: [case(like(t, '%a'), 2, 1)]
"""

NULLS = """
relation r(a: INTEGER, b: INTEGER, f: BOOLEAN)
map q[a: int?, b: int?](count: int, total: int)
map p[x: int?](count: int)
map both[f: bool?](count: int)
map join[b: int?](count: int)
on r:
  join[b] += Δr(a, b, f) * q[b, a].count | count: 1
  q[a, b] += Δr(a, b, f) | count: 1, total: [a + b]
  p[x] += Δr(a, b, f) * (x := [case(a > 2, b, a < 1, a, NULL)]) * {not(f) or a > b} | count: 1
  both[f] += Δr(a, b, f) * {a == b} | count: 1
"""

NESTED = """
relation r(a: INTEGER not null, b: INTEGER not null)
buffer d[a: int](count: int, total: int)
map q[](value: int)
map m[a: int](count: int, total: int)
on r:
  d[a] += Δr(a, b) | count: 1, total: b
  q[] += Exists(d[a].count) * (c := m[a].count + d[a].count) * (n := m[a].total + d[a].total) *
    {n > 2 * c}
    | value: n
  q[] += -1 * Exists(d[a].count) * (c := m[a].count) * (n := m[a].total) * {n > 2 * c} | value: n
  m[a] += d[a].count | count: 1
  m[a] += d[a].total | total: 1
"""

EXTREMES = """
relation r(a: INTEGER not null, v: INTEGER, w: VARCHAR not null, f: DOUBLE not null)
buffer d[a: int, v: int?](count: int)
buffer dw[a: int, w: str](count: int)
buffer da[a: int](count: int)
map m[a: int, v: int?](count: int)
map mw[a: int, w: str](count: int)
map mf[f: float](count: int)
map low[a: int, x: int?](value: int)
map high[a: int, x: str?](value: int)
map top[x: float?](value: int)
on r:
  d[a, v] += Δr(a, v, w, f) | count: 1
  dw[a, w] += Δr(a, v, w, f) | count: 1
  da[a] += Δr(a, v, w, f) * {is_null(v) or v >= 0} | count: 1
  low[a, x] += Exists(Sum[a](Δr(a, v, w, f) * Δr(a, v2, w2, f2))) *
    (x := min v in m[a, v].count + d[a, v].count)
    | value: 1
  low[a, x] += -1 * Exists(Sum[a](Δr(a, v, w, f) * Δr(a, v2, w2, f2))) *
    (x := min v in m[a, v].count)
    | value: 1
  high[a, x] += Exists(Sum[a](dw[a, w].count * dw[a, w2].count)) *
    (x := max w in mw[a, w].count + dw[a, w].count)
    | value: 1
  high[a, x] += -1 * Exists(Sum[a](dw[a, w].count * dw[a, w2].count)) *
    (x := max w in mw[a, w].count)
    | value: 1
  m[a, v] += d[a, v].count | count: 1
  mw[a, w] += dw[a, w].count | count: 1
  mf[f] += Δr(a, v, w, f) | count: 1
  top[x] := (x := max f in mf[f].count) | value: 1
"""

# Statements for new and old values that differ in these alone are one loop.
CHANGES = """
relation r(a: INTEGER not null, v: INTEGER, f: DOUBLE not null)
buffer d[a: int, v: int?](count: int)
buffer ds[a: int](total: int, weight: float)
map m[a: int, v: int?](count: int)
map s[a: int](total: int, weight: float)
map low[a: int, x: int?](value: int)
map same[a: int, v: int?](value: int)
map by[n: int](count: int, value: int)
map heavy[a: int, y: float](count: int)
on r:
  d[a, v] += Δr(a, v, f) | count: 1
  ds[a] += Δr(a, v, f) | total: [case(is_null(v), 0, v)], weight: f
  low[a, x] += ds[a].* * (x := min v in m[a, v].count + d[a, v].count) | value: 1
  low[a, x] += ds[a].* * (x := min v in m[a, v].count) | value: -1
  same[a, x] += ds[a].* * (x := max v in m[a, v].count + d[a, v].count) * m[a, x].*
    | value: m[a, x].count
  same[a, x] += ds[a].* * (x := max v in m[a, v].count) * m[a, x].* | value: -1 * m[a, x].count
  by[n] += ds[a].* * (n := s[a].total + ds[a].total) * {n > 3} | count: 1, value: n
  by[n] += ds[a].* * (n := s[a].total) * {n > 3} | count: -1, value: -1 * n
  heavy[a, y] += ds[a].* * (y := s[a].weight + ds[a].weight) * {y > 1.5} | count: 1
  heavy[a, y] += ds[a].* * (y := s[a].weight) * {y > 1.5} | count: -1
  m[a, v] += d[a, v].count | count: 1
  s[a] += ds[a].* | total: ds[a].total, weight: ds[a].weight
"""

TURNS = """
relation r(a: INTEGER not null, b: INTEGER not null)
relation s(a: INTEGER not null, c: INTEGER not null)
buffer d[a: int](count: int, weight: float)
map m[a: int](count: int, weight: float)
map k[a: int, c: int](count: int)
map q[c: int](count: int, value: int)
map f[a: int](count: int)
map g[a: int](count: int)
map h[c: int](count: int)
on r:
  d[a] += Δr(a, b) | count: 1, weight: [to_float(b) - 2.5]
  q[c] += d[a].* * k[a, c].* * Exists(m[a].count + d[a].count) | count: k[a, c].count, value: a
  q[c] += d[a].* * k[a, c].* * Exists(m[a].count) | count: -1 * k[a, c].count, value: -1 * a
  f[a] += d[a].* * Exists(m[a].weight + d[a].weight) | count: 1
  f[a] += d[a].* * Exists(m[a].weight) | count: -1
  g[a] += d[a].* * Exists(m[a].count + d[a].count) * (n := m[a].weight + d[a].weight) * {n > 0.5}
    | count: 1
  g[a] += d[a].* * Exists(m[a].count) * (n := m[a].weight) * {n > 0.5} | count: -1
  h[c] += d[a].* * (n := m[a].count + d[a].count) * {n > 1} * k[a, c].* | count: k[a, c].count
  h[c] += d[a].* * (n := m[a].count) * {n > 1} * k[a, c].* | count: -1 * k[a, c].count
  m[a] += d[a].* | count: d[a].count, weight: d[a].weight
on s:
  q[c] += Δs(a, c) * Exists(m[a].count) | count: 1, value: a
  k[a, c] += Δs(a, c) | count: 1
"""

CHOSEN = """
relation r(a: INTEGER not null, b: INTEGER not null, x: DOUBLE not null, t: VARCHAR not null)
relation s(a: INTEGER not null, b: INTEGER not null, e: INTEGER)
map q[a: int](count: int, x: float)
map p[a: int, b: int](count: int)
map m[a: int](count: int)
map n[b: int](count: int)
on r:
  q[a] += Δr(a, b, x, t) * {b < 4} * {like(t, 'x%')} | count: 1, x: x
  p[a, b] += Δr(a, b, x, t) * {b < 4} * {like(t, 'x%')} * {x > 0.0} * m[a].count | count: 1
on s:
  m[a] += Δs(a, b, e) * {a <> b or b = 2} | count: 1
  n[b] += Δs(a, b, e) * {a < 3 and in(b, 1, 2, 4)} | count: b
"""

RANGES = """
relation bids(p: INTEGER not null, v: BIGINT not null, x: DOUBLE not null)
map m[p: int](v: int, x: float)
map g[v: int, p: int](n: int)
map vwap[](value: int, x: float)
map near[v: int](n: int)
map fl[x: float](n: int)
map under[](n: int)
on bids:
  m[p] += Δbids(p, v, x) | v: v, x: [x]
  g[v, p] += Δbids(p, v, x) | n: 1
  fl[x] += Δbids(p, v, x) | n: 1
  vwap[] := m[p].v * (s := Sum[](m[p2].v * {p2 > p})) * (t := Sum[](m[p3].v)) * {4 * s < t}
    | value: p
  vwap[] += m[p].v * (s := Sum[](m[p2].x * {p2 <= p} * {p2 > p - 3})) | x: [s]
  near[v] += Δbids(p, v, x) * g[v, p2].n * {p2 >= p} | n: 1
  under[] += Δbids(p, v, x) * fl[x2].n * {x2 + 0.0 < 1.0} | n: 1
  under[] += Δbids(p, v, x) * fl[x2].n * {x2 < x} * {x2 >= p} | n: 1
"""

BORDERS = """
relation bids(g: INTEGER not null, p: INTEGER not null, v: INTEGER not null, z: BIGINT not null)
map m[p: int](n: int, v: int, z: int)
map g[g: int, p: int](n: int, v: int, z: int)
map t[](n: int, v: int)
map low[](n: int, v: int)
map low_in[](n: int, v: int)
map high[](n: int)
map high_in[](n: int)
map both[](n: int, v: int)
map signs[](n: int)
map each[g: int](n: int, v: int)
map own[g: int](n: int)
map other[](n: int)
on bids:
  m[p] += Δbids(g, p, v, z) | n: 1, v: v, z: z
  g[g, p] += Δbids(g, p, v, z) | n: 1, v: v, z: z
  t[] += Δbids(g, p, v, z) | n: 1, v: v
  low[] := (a := t[].v) * m[p].* * (s := Sum[](m[q].v * {q > p})) * {0.25 * a > s}
    | n: m[p].n, v: 2 * m[p].v
  low_in[] := (a := t[].v) * m[p].* * (s := Sum[](m[q].v * {p <= q})) * {a >= 2 * s}
    | n: m[p].n, v: m[p].v
  high[] := (a := t[].v) * Sum[](m[p].n * (s := Sum[](m[q].v * {q < p})) * {a - s < s}) | n: 1
  high_in[] := (a := t[].v) * Sum[](m[p].n * (s := Sum[](m[q].v * {q <= p})) * {s > 3}) | n: 1
  both[] := (a := t[].v) * m[p].* * (s := Sum[](m[q].v * {q > p})) *
    (k := Sum[](m[q].n * {q > p})) * {0.5 * a > case(k = 0, NULL, s)}
    | n: m[p].n, v: m[p].v
  signs[] := m[p].* * (s := Sum[](m[q].z * {q > p})) * {s < 2} | n: m[p].n
  each[g] := (a := t[].v) * g[g, p].* * (s := Sum[](m[q].v * {q > p})) * {0.5 * a > s}
    | n: g[g, p].n, v: -1 * g[g, p].v
  own[g] := g[g, p].* * (s := Sum[](g[g, q].z * {q >= p})) * {s < 3} | n: g[g, p].n
  own[g] += g[g, p].n * (s := Sum[](g[g, q].v * {q >= p})) * {s < 3} | n: 1
  other[] := (x := [2]) * m[p].n * (s := Sum[](g[x, q].v * {q > p})) * {s < 3} | n: 2
"""

GAPS = """
relation r(a: INTEGER not null, x: DOUBLE not null, s: VARCHAR not null, w: INTEGER)
map m[a: int, x: float](n: int, w: float)
map k[a: int](n: int)
map near[a: int](n: int, w: float)
map far[](n: int, w: float)
map ends[](n: int)
map text[s: str](n: int, w: int)
map after[](n: int)
map middle[](n: int)
on r:
  near[a] += Δr(a, x, s, w) * Sum[a](m[a, y].n * {x - y > 0.5 or y - x > 0.5}) | n: 1
  near[a] += Δr(a, x, s, w) * Sum[a](m[a, y].w * {y - x > 0.5 or x - y >= 0.5}) | w: 1
  far[] += Δr(a, x, s, w) * m[b, y].* * {2.0 * y - x < 1.0} * {x - y < 2.0}
    | n: m[b, y].n, w: x * m[b, y].w
  ends[] += Δr(a, x, s, w) * k[b].n * {b + a >= 7 or b - w < 0} | n: 1
  ends[] += Δr(a, x, s, w) * k[b].n * {b >= w} * {b < a} | n: 1
  k[a] += Δr(a, x, s, w) | n: 1
  m[a, x] += Δr(a, x, s, w) | n: 1, w: [x]
  text[s] += Δr(a, x, s, w) | n: 1, w: [coalesce(w, 0)]
  after[] := text[s].* * (c := Sum[](text[u].w * {u < s})) * {c < 5} | n: text[s].n
  middle[] := Δr(a, x, s, w) * text[u].n * {u >= s} * {u < 'xb'} | n: 1
"""

SELF = """
relation r(a: INTEGER not null, b: INTEGER not null)
map m[a: int](n: int)
map c[a: int](n: int)
on r:
  m[a] += Δr(a, b) + Δr(b, a) * m[a].n | n: 1
  c[b] := m[a].n * (b := [coalesce(mod(a, 3), 0)]) | n: 1
  c[b] += c[a].n * (b := [a + 1]) * {a < 2} | n: 1
"""

SHAPES = """
relation r(a: INTEGER not null, b: INTEGER not null, d: DATE not null)
map m[a: int, b: int, c: int](n: int)
map q[a: int](n: int)
map w[](n: int)
map y[y: int, q: int](n: int)
on r:
  q[a] += Δr(a, b, d) * (m[a, b, b].n + m[a, c, b].n * {c < 3} + 2 * {b < 2}) | n: 1
  q[a] += Δr(a, a, d) | n: 7
  q[e] += Δr(a, b, d) * (m[a, b, e].n + m[e, a, b].n) | n: 1
  w[] += Exists(Δr(a, b, d) * m[a, b, c].n) | n: a
  w[] += Δr(a, b, d) * Sum[](m[a, b2, c].n * m[b2, c, e].n) | n: 1
  m[a, b, c] += Δr(a, b, d) * (c := [coalesce(mod(a + b, 4), 0)]) | n: 1
  y[y, q] += Δr(a, b, d) * (y := [date_year(d)]) * (q := [date_month(date_add_months(d, 1))])
    | n: [date_dow(d)]
"""

# The random rows do not keep to the declared key: it may say where to look, not what is there.
KEYED = """
relation o(k: INTEGER not null, c: INTEGER, d: DOUBLE) key (k)
relation l(k: INTEGER not null, x: INTEGER not null)
map q[k: int, c: int?, d: float?](count: int)
  count := Sum[k, c, d](o(k, c, d) * l(k, x))
map mo[c: int?, k: int, d: float?](count: int)
  count := Sum[c, k, d](o(k, c, d))
map ml[k: int](count: int)
  count := Sum[k](l(k, x))
map by_c[c: int?](count: int)
  count := Sum[c](o(k, c, d) * l(k, x))
on o:
  q[k, c, d] += Δo(k, c, d) * ml[k].count | count: 1
  by_c[c] += Δo(k, c, d) * ml[k].count | count: 1
  mo[c, k, d] += Δo(k, c, d) | count: 1
on l:
  q[k, c, d] += Δl(k, x) * mo[c, k, d].count | count: 1
  by_c[c] += Δl(k, x) * mo[c, k, d].* | count: mo[c, k, d].count
  ml[k] += Δl(k, x) | count: 1
"""

# One row for each key that exists, whether something looks at the key or not: no range sum.
EXISTING = """
relation r(a: INTEGER not null, p: INTEGER not null, x: INTEGER not null)
map q[p: int](n: int)
map w[](n: int)
map m[a: int, p: int](count: int)
on r:
  q[p] += Δr(a, z, x) * Exists(m[a, p].count * {p < x}) | n: 1
  w[] += Δr(a, z, x) * Exists(m[a, p].count * {p < x}) | n: 1
  m[a, p] += Δr(a, p, x) | count: 1
"""

ALL = {
    name.lower(): text
    for name, text in dict(globals()).items()
    if name.isupper() and isinstance(text, str)
}
