package calendar

import (
	"errors"
	"regexp"
	"strconv"
)

// ErrDuration contains no value.
var ErrDuration = errors.New("expected a duration with the units d, h, m, s and ms, such as 90s, 36h or 1h30m")

var (
	durationForm = regexp.MustCompile(`^(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,12})s)?(?:(\d{1,15})ms)?$`)
	units        = []struct {
		name         string
		milliseconds int64
	}{{"d", 24 * 3_600_000}, {"h", 3_600_000}, {"m", 60_000}, {"s", 1000}, {"ms", 1}}
)

// ParseDuration returns the milliseconds of a duration such as 36h or 1h30m. A day has 24 hours.
func ParseDuration(text string) (milliseconds int64, err error) {
	found := durationForm.FindStringSubmatch(text)
	if found == nil || text == "" {
		return 0, ErrDuration
	}
	for i, unit := range units {
		if found[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(found[i+1], 10, 64)
		if err != nil || n > MaxMilliseconds/unit.milliseconds {
			return 0, ErrDuration
		}
		milliseconds += n * unit.milliseconds
	}
	if milliseconds > MaxMilliseconds {
		return 0, ErrDuration
	}
	return milliseconds, nil
}

// FormatDuration returns a duration that is not negative in the largest unit that needs no fraction.
func FormatDuration(milliseconds int64) string {
	for _, unit := range units {
		if milliseconds != 0 && milliseconds%unit.milliseconds == 0 {
			return strconv.FormatInt(milliseconds/unit.milliseconds, 10) + unit.name
		}
	}
	return strconv.FormatInt(milliseconds, 10) + "ms"
}
