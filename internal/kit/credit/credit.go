// Package credit defines amounts of credits, with their arithmetic, rounding, and form in JSON
// and in the database.
//
// An Amount is a whole number of micro-credits, so sums are exact. Amounts are never floats
// (decisions 1.4).
package credit

import (
	"fmt"
	"strconv"
	"strings"
)

// Amount is a number of micro-credits (10^-6 credits). It is stored as bigint
// and written in JSON as a number of credits with at most six decimals.
type Amount int64

// Scale is the number of micro-credits in one credit.
const Scale = 1_000_000

// Credits returns the amount of n whole credits.
func Credits(n int64) Amount { return Amount(n * Scale) }

// String returns the amount in credits, without trailing zeros in the fraction.
func (a Amount) String() string {
	sign, magnitude := "", uint64(a)
	if a < 0 {
		sign, magnitude = "-", -uint64(a)
	}
	whole, fraction := magnitude/Scale, magnitude%Scale
	if fraction == 0 {
		return sign + strconv.FormatUint(whole, 10)
	}
	return sign + strconv.FormatUint(whole, 10) + "." + strings.TrimRight(fmt.Sprintf("%06d", fraction), "0")
}

// MarshalJSON encodes the amount as a JSON number of credits.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON decodes a JSON number of credits. It returns an error for a number with an
// exponent or more than six decimals, or beyond the range of an Amount.
func (a *Amount) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(string(data))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// Parse parses a decimal number of credits such as "1", "-0.5" or "2.000001".
func Parse(text string) (Amount, error) {
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, dotted := strings.Cut(digits, ".")
	if whole == "" || len(fraction) > 6 || (dotted && fraction == "") || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, fmt.Errorf("credit amount %q is not a decimal number with at most 6 decimals", cut(text))
	}
	magnitude, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 6-len(fraction)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("credit amount %q is out of range", cut(text))
	}
	if negative {
		magnitude = -magnitude
	}
	return Amount(magnitude), nil
}

func cut(text string) string { return text[:min(len(text), 32)] }
