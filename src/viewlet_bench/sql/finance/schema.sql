-- The order book of the thesis, section 4.2: streams of bids and asks.
CREATE STREAM bids (
  t DOUBLE NOT NULL, id INTEGER NOT NULL, broker_id INTEGER NOT NULL,
  volume DOUBLE NOT NULL, price DOUBLE NOT NULL
);
CREATE STREAM asks (
  t DOUBLE NOT NULL, id INTEGER NOT NULL, broker_id INTEGER NOT NULL,
  volume DOUBLE NOT NULL, price DOUBLE NOT NULL
);
