package apiserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
)

const askBackup = "POST /gapless/v1/backup HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// backingUp is a server in a bubble whose backups are written by take, and the end of each.
func backingUp(t *testing.T, take func(ctx context.Context, to io.Writer) error) (c *clockwork, ended chan error) {
	t.Helper()
	ended = make(chan error, 1)
	return windConfig(t, apiserver.Config{Backup: func(ctx context.Context, _ apiserver.Backup, to io.Writer) error {
		err := take(ctx, to)
		ended <- err
		return err
	}}), ended
}

// answered reads the head of an answer.
func answered(t *testing.T, from *bufio.Reader) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("read the response: %+v, %v", resp, err)
	}
	return resp
}

// TestABackupTakesAsLongAsItIsWritten: no deadline of other requests ends it.
func TestABackupTakesAsLongAsItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ended := backingUp(t, func(ctx context.Context, to io.Writer) error {
			for range 10 {
				if _, err := io.WriteString(to, strings.Repeat("x", 10_000)); err != nil {
					return err
				}
				select {
				case <-time.After(50 * time.Second):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
		_, from := c.send(askBackup)
		body, err := io.ReadAll(answered(t, from).Body) //nolint:bodyclose // the pipe is closed by send
		if end := <-ended; err != nil || len(body) != 100_000 || end != nil {
			t.Errorf("%d bytes, %v, %v; want 100000", len(body), err, end)
		}
	})
}

// TestASlowClientGetsItsBackup reads a block of a megabyte a little at a time.
func TestASlowClientGetsItsBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ended := backingUp(t, func(_ context.Context, to io.Writer) error {
			n, err := io.WriteString(to, strings.Repeat("x", 1<<20))
			if err == nil && n != 1<<20 {
				err = fmt.Errorf("%d bytes were written", n)
			}
			return err
		})
		_, from := c.send(askBackup)
		body := answered(t, from).Body //nolint:bodyclose // the pipe is closed by send
		began := time.Now()
		for read := 0; read < 1<<20; read += 16 << 10 {
			after(20 * time.Second)
			if _, err := io.ReadFull(body, make([]byte, 16<<10)); err != nil {
				t.Fatalf("read the backup after %v: %v", time.Since(began), err)
			}
		}
		if _, err := io.ReadAll(body); err != nil {
			t.Errorf("read the end of the backup: %v", err)
		}
		if err := <-ended; err != nil || time.Since(began) < 20*time.Minute {
			t.Errorf("the backup of a slow client ends after %v: %v", time.Since(began), err)
		}
	})
}

// TestABackupEndsWithItsClient: with one that reads nothing, and with one that has gone.
func TestABackupEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c, ended := backingUp(t, func(_ context.Context, to io.Writer) error {
			for {
				if _, err := io.WriteString(to, strings.Repeat("x", 10_000)); err != nil {
					return err
				}
			}
		})
		_, from := c.send(askBackup)
		answered(t, from) //nolint:bodyclose // it is not read
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > 2*time.Minute {
			t.Errorf("a client that reads nothing: %v after %v", err, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, ended := backingUp(t, func(ctx context.Context, to io.Writer) error {
			if _, err := io.WriteString(to, strings.Repeat("x", 10_000)); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		conn, from := c.send(askBackup)
		body := answered(t, from).Body //nolint:bodyclose // the connection is closed
		if _, err := io.ReadFull(body, make([]byte, 10_000)); err != nil {
			t.Fatalf("read the backup: %v", err)
		}
		after(2 * time.Minute)
		if err := conn.Close(); err != nil {
			t.Errorf("close the connection: %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: %v", err)
		}
	})
}
