-- expand
SELECT 1;
