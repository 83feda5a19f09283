-- expand
SELECT; -- keeps the numbers of migrations without a gap
