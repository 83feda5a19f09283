// Package spelling compares names, to suggest the one that a person may have meant.
package spelling

// Distance returns the number of bytes to insert, delete or replace to get from one name to another
// (Levenshtein).
func Distance(from, to string) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(to) {
			cost := diagonal
			if from[i] != to[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(to)]
}

// Nearest returns the name that differs least from a name: by at most two bytes, and by fewer than the
// name has. It returns "" if no name is near enough.
func Nearest(to string, names []string) (nearest string) {
	const most = 2
	least := most + 1
	for _, name := range names {
		if d := Distance(to, name); d < least && d < len(to) {
			nearest, least = name, d
		}
	}
	return nearest
}
