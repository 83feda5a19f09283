-- expand
-- The rule by which an account admits a want: returns why it does not, or null. current says
-- whether the account's period is current, amount is what the want reserves, available are the
-- account's credits, and before are the credits of the wants before it. The last admitted want may
-- exceed the credits and the storage.
CREATE FUNCTION refusal(current boolean, stopped boolean, available bigint, stored bigint, storage_limit bigint,
                        amount bigint, before bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN NOT current THEN 'period'
        WHEN amount > 0 AND stopped THEN 'stopped'
        WHEN amount > 0 AND available <= before THEN 'credits'
        WHEN storage_limit <> 0 AND stored >= storage_limit THEN 'storage'
    END
$$;
