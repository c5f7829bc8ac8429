package fault

import "strings"

// fitsAny reports whether a text fits one of the patterns, in which * is any text and ? any byte.
func fitsAny(patterns []string, text string) bool {
	for _, p := range patterns {
		if glob(p, text) {
			return true
		}
	}
	return false
}

// glob reports whether a text fits a pattern in which * is any text and ? any byte. Unlike
// in path.Match, * may stand for slashes: user agents have them.
func glob(pattern, text string) bool {
	star, mark := -1, 0 // of the last *: where it is, and where what it stands for ends
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p, t = p+1, t+1
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
