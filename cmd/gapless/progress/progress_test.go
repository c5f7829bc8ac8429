package progress_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/cmd/gapless/progress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatIsDoneSoonIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m := progress.New(&out, "checked", progress.Objects)
		for i := range int64(19) {
			<-time.After(100 * time.Millisecond)
			m.Set(i, 19)
		}
		m.End()
		if out.Len() > 0 {
			t.Errorf("it wrote %q", &out)
		}
	})
}

func TestLinesComeAfterTenthsAndNotMoreOftenThanEveryTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m := progress.New(&out, "checked", progress.Bytes)
		for i := range int64(100) { // 10 s: a tenth each second
			<-time.After(100 * time.Millisecond)
			m.Set((i+1)<<20, 100<<20)
		}
		m.End()
		want := "checked 20 MiB of 100 MiB (20%), about 8s left\nchecked 40 MiB of 100 MiB (40%), about 6s left\n" +
			"checked 60 MiB of 100 MiB (60%), about 4s left\nchecked 80 MiB of 100 MiB (80%), about 2s left\n" +
			"checked 100 MiB of 100 MiB (100%)\n"
		if out.String() != want {
			t.Errorf("it wrote\n%s\nwant\n%s", &out, want)
		}
		out.Reset()
		m = progress.New(&out, "checked", progress.Objects)
		for i := range int64(3600) { // an hour
			<-time.After(time.Second)
			m.Set(i+1, 3600)
		}
		if n := strings.Count(out.String(), "\n"); n < 100 || n > 125 {
			t.Errorf("of an hour it wrote %d lines, want one each 30 s", n)
		}
	})
}

func TestWithoutATotalOnlyWhatIsDoneIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m := progress.New(&out, "backed up", progress.Objects)
		<-time.After(3 * time.Second)
		m.Set(1234, 0)
		m.End()
		if want := "backed up 1234\n"; out.String() != want {
			t.Errorf("it wrote %q, want %q", &out, want)
		}
	})
}

func TestWaitSaysHowLongItHasWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		failed := errors.New("no")
		err := progress.Wait(&out, "compacting", func() error { <-time.After(50 * time.Second); return failed })
		want := "compacting for 2s\ncompacting for 32s\n"
		if !errors.Is(err, failed) || out.String() != want {
			t.Errorf("it returned %v, and wrote %q, want %q", err, &out, want)
		}
	})
}
