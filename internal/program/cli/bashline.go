package cli

import "strings"

// bashWords splits a bash command line, without the program's name. The last word is the one being
// completed. cut is the length of the last word's prefix that bash does not replace, because bash
// breaks words at more characters than spaces.
func bashWords(line, breaks string) (words []string, cut int) {
	var word strings.Builder
	var quote rune
	some, escaped, quoted := false, false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, some = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, some, quoted = r, true, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if some {
				words = append(words, word.String())
			}
			word.Reset()
			some, quoted = false, false
		default:
			word.WriteRune(r)
			some = true
		}
	}
	if len(words) == 0 {
		return nil, 0
	}
	current := word.String()
	if !quoted {
		cut = strings.LastIndexFunc(current, func(r rune) bool { return (r == '=' || r == ':') && strings.ContainsRune(breaks, r) }) + 1
	}
	return append(words[1:], current), cut
}
