-- expand
-- Whether deliveries get the output of RESPOND.
ALTER TABLE hooks ADD COLUMN respond boolean NOT NULL DEFAULT false;
