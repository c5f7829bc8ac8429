package etcd

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestALeaseThatIsLostIsForgottenAlsoWhileItIsUsed: otherwise the next write gets it again.
func TestALeaseThatIsLostIsForgottenAlsoWhileItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases(nil)
		used := l.of(time.Hour)
		used.id, used.objects, used.expires = 7, 1, time.Now().Add(time.Hour+time.Second)
		used.turn <- struct{}{}
		ended := make(chan struct{})
		go func() { // ends with the turn
			l.lost(t.Context(), 7)
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("a lease is not forgotten while it is used")
		default:
		}
		<-used.turn
		<-ended
		if next := l.of(time.Hour); next.id == 7 && next.expires.After(time.Now()) {
			t.Errorf("a lease that is lost is used until %v", next.expires)
		}
	})
}
