package node

import "strings"

// unknown warns of variables that look like ours and are not.
func unknown(names []string, known []setting) []Warning {
	var list []Warning
	for _, name := range names {
		if !strings.HasPrefix(name, "AQUIFER_") || isKnown(name, known) {
			continue
		}
		w := Warning{Name: name, Text: "nobody knows this name"}
		if near := nearest(name, known); near != "" {
			w.Text += "; the nearest known one is " + near
		}
		if ofAnotherBuild(name) {
			w.Text = "this build does not support it; it has no effect"
		}
		list = append(list, w)
	}
	return list
}

func isKnown(name string, known []setting) bool {
	for _, s := range known {
		if s.name == name {
			return true
		}
	}
	return false
}

// ofAnotherBuild reports whether the name is one of the wire contract's for a capability that this
// build does not have.
func ofAnotherBuild(name string) bool {
	for _, start := range [...]string{
		"AQUIFER_A2A_", "AQUIFER_ADAPTER", "AQUIFER_FLY_", "AQUIFER_L8_",
		"AQUIFER_REDIRECT_", "AQUIFER_STORE_BACKEND", "AQUIFER_WS_",
	} {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// nearest returns the known name with the smallest edit distance, the first of several; "" if more
// than a third of what is particular to the name would have to change.
func nearest(name string, known []setting) string {
	best, least := "", len(strings.TrimPrefix(name, "AQUIFER_"))/3+1
	for _, s := range known {
		if d := distance(name, s.name); d < least {
			best, least = s.name, d
		}
	}
	return best
}

// distance is the Levenshtein distance: how many bytes must be put in, taken out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
