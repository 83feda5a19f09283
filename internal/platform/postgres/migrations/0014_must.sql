-- expand
-- What leaves together with the commit is committed before anybody has looked at its
-- answer: a statement there raises by itself what must not stand.
CREATE FUNCTION must(holds boolean, code text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF holds IS NOT TRUE THEN
        RAISE EXCEPTION 'this must not be committed' USING ERRCODE = code;
    END IF;
    RETURN true;
END
$$;
