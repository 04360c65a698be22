-- endpoint: GET /api/items
-- description: Items of at least a price
-- param: least number = 0
-- param: name text = null
-- template: items.html
SELECT id, name, price FROM items WHERE coalesce(price, 0) >= $least AND ($name = 'null' OR name = $name) ORDER BY id
