-- expand
SELECT; -- replaced when branches merge
