-- expand
-- A rotated key and its successors have one root, the first key among them: the next key
-- sees what the key before it submitted. Null: the key is its own root.
ALTER TABLE api_keys ADD COLUMN root_id uuid;

-- The keys that were rotated before.
WITH RECURSIVE successors AS (
    SELECT k.workspace_id, k.id AS root_id, k.replaced_by AS id FROM api_keys k
    WHERE k.replaced_by IS NOT NULL
      AND NOT EXISTS (SELECT FROM api_keys p WHERE p.workspace_id = k.workspace_id AND p.replaced_by = k.id)
    UNION
    SELECT s.workspace_id, s.root_id, k.replaced_by FROM successors s
    JOIN api_keys k ON k.workspace_id = s.workspace_id AND k.id = s.id
    WHERE k.replaced_by IS NOT NULL
)
UPDATE api_keys k SET root_id = s.root_id FROM successors s WHERE k.workspace_id = s.workspace_id AND k.id = s.id;
