CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR NOT NULL);
CREATE STREAM items (order_id INT NOT NULL, price DECIMAL(12,2) NOT NULL);
CREATE MATERIALIZED VIEW spending AS
SELECT o.customer, SUM(i.price) AS total
FROM orders o JOIN items i ON i.order_id = o.id
GROUP BY o.customer;
