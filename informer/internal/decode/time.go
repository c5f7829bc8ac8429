package decode

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timestamp is metav1.Time.UnmarshalJSON without its detours.
func timestamp(r *reader, v reflect.Value) error {
	into, is := reflect.TypeAssert[*metav1.Time](v.Addr())
	if !is {
		return errFallback
	}
	if r.null() {
		into.Time = time.Time{}
		return nil
	}
	b, err := r.text()
	if err != nil {
		return err
	}
	if t, usual := seconds(b); usual {
		into.Time = t
		return nil
	}
	t, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		return errFallback
	}
	into.Time = t.Local()
	return nil
}

// seconds reads a time as API servers write it: 2026-01-02T03:04:05Z, from 1970 to 9999.
// The 29th of February is left to those who know leap years.
func seconds(b []byte) (time.Time, bool) {
	const form = "dddd-dd-ddTdd:dd:ddZ"
	if len(b) != len(form) {
		return time.Time{}, false
	}
	for i, c := range b {
		if want := form[i]; want == 'd' && (c < '0' || c > '9') || want != 'd' && c != want {
			return time.Time{}, false
		}
	}
	two := func(i int) int { return int(b[i]-'0')*10 + int(b[i+1]-'0') }
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	const lengths = "\x1f\x1c\x1f\x1e\x1f\x1e\x1f\x1f\x1e\x1f\x1e\x1f"
	if year < 1970 || month < 1 || month > 12 || day < 1 || day > int(lengths[month-1]) || hour > 23 || minute > 59 ||
		second > 59 {
		return time.Time{}, false
	}
	// Days since 1970-01-01, by the calendar whose years begin in March.
	y, m := year, month-3
	if m < 0 {
		y, m = y-1, m+12
	}
	days := 365*y + y/4 - y/100 + y/400 + (153*m+2)/5 + day - 1 - 719468
	return time.Unix(int64(days)*86400+int64(hour*3600+minute*60+second), 0), true
}
