-- name: HookDeliveryGet :one
-- The run of the first of these marks that is known.
SELECT run_id FROM hook_deliveries
WHERE workspace_id = @workspace_id AND hook_id = @hook_id AND delivery = ANY (@marks::bytea[])
ORDER BY array_position(@marks::bytea[], delivery) LIMIT 1;

-- name: HookDeliveryInsert :exec
INSERT INTO hook_deliveries (workspace_id, hook_id, delivery, run_id)
SELECT @workspace_id, @hook_id, mark, @run_id FROM unnest(@marks::bytea[]) AS mark;

-- name: HookDeliveryDeleteExpired :execrows
-- Deletes deliveries after 7 days. Senders do not retry for that long.
DELETE FROM hook_deliveries d WHERE (d.workspace_id, d.hook_id, d.delivery) IN (
    SELECT o.workspace_id, o.hook_id, o.delivery FROM hook_deliveries o
    WHERE o.received_at < now() - interval '7 days' LIMIT 5000);
