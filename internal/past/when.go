package past

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-io/gapless/kube"
)

// Moment is a point of a history: a time, or a resourceVersion. The zero value is none.
type Moment struct {
	At time.Time
	RV kube.ResourceVersion
}

// IsZero reports whether it is none.
func (m Moment) IsZero() bool { return m == Moment{} }

// String is as [ParseMoment] reads it.
func (m Moment) String() string {
	switch {
	case m.RV != 0:
		return m.RV.String()
	case m.At.IsZero():
		return "now"
	}
	return m.At.Format(time.RFC3339)
}

const day = 24 * time.Hour

// ParseTime reads a time as people write it: 14:05 or 14:05:30 of today, 2026-11-25, 2026-11-25 14:05 or 14:05:30, all
// in the zone of now; RFC 3339; or how long ago it was, like 90s, 2h30m or 3d. What is not past, or was before 1970, is an
// error.
func ParseTime(text string, now time.Time) (time.Time, error) {
	at, err := parseTime(strings.TrimSpace(text), now)
	if err != nil {
		return time.Time{}, err
	}
	if at.Unix() < 0 {
		return time.Time{}, fmt.Errorf("%q is before 1970: no server has a history of then", text)
	}
	if at.After(now) {
		hint := ""
		if !strings.ContainsAny(text, "-") {
			hint = "; write the date too if it was on another day, like " + at.Add(-day).Format("2006-01-02 15:04")
		}
		return time.Time{}, fmt.Errorf("%q is in the future: it is %s now%s", text, now.Format(time.RFC3339), hint)
	}
	return at, nil
}

func parseTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location()), nil
		}
	}
	for _, layout := range []string{
		time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339,
	} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	if ago, err := parseAgo(text); err == nil {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%.60q is no time: write 14:05 for today, 2026-11-25 14:05, "+
		"2026-11-25T14:05:00Z, or how long ago it was, like 90s, 2h30m or 3d", text)
}

// parseAgo reads a duration, which may have days.
func parseAgo(text string) (time.Duration, error) {
	var days time.Duration
	if n, rest, has := strings.Cut(text, "d"); has {
		const most = 100 * 365
		count, err := strconv.ParseUint(n, 10, 16)
		if err != nil || count > most {
			return 0, fmt.Errorf("%.60q is no number of days", n)
		}
		days = time.Duration(count) * day //nolint:gosec // at most 100 years
		if text = rest; text == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err == nil && (d < 0 || d > 100*365*day) {
		err = fmt.Errorf("%v: write how long ago it was, without a sign", d)
	}
	return days + d, err
}

// ParseMoment reads a time as [ParseTime] does, or digits alone: a resourceVersion.
func ParseMoment(text string, now time.Time) (Moment, error) {
	if rv, err := kube.ParseResourceVersion(text); err == nil && rv != 0 {
		return Moment{RV: rv}, nil
	}
	at, err := ParseTime(text, now)
	if err != nil {
		return Moment{}, fmt.Errorf("%w; or a resourceVersion", err)
	}
	return Moment{At: at}, nil
}
