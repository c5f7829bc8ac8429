package members_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// inspected returns a report, and the causes in it, without doubles.
func inspected(t *testing.T, r *replica) (members.Report, []members.Cause) {
	t.Helper()
	report, err := r.Inspect(t.Context())
	if err != nil {
		t.Fatalf("inspect etcd: %v", err)
	}
	causes := []members.Cause{}
	for _, p := range report.Problems {
		if !slices.Contains(causes, p.Cause) {
			causes = append(causes, p.Cause)
		}
	}
	return report, causes
}

// awaitCauses waits until reports have exactly these causes, which heal and come by themselves.
func awaitCauses(t *testing.T, r *replica, want ...members.Cause) members.Report {
	t.Helper()
	var last members.Report
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last report: %+v", last)
		}
	})
	harness.Eventually(t, "the report is right", func() bool {
		report, causes := inspected(t, r)
		last = report
		return slices.Equal(causes, want) || len(causes) == 0 && len(want) == 0
	})
	return last
}

func TestAReportSaysWhatMembersAre(t *testing.T) {
	t.Parallel()
	c := startClusterWith(t, 3, 100<<20)
	r := c.replica("a")
	report := awaitCauses(t, r)
	if report.ClusterID == 0 || report.Quorum != nil || len(report.Members) != 3 || !report.CertificateEnds.IsZero() {
		t.Errorf("the report is %+v", report)
	}
	for i, m := range report.Members {
		quota := int64(100 << 20)
		if strings.HasPrefix(m.Version, "3.5.") {
			quota = 0 // it does not say
		}
		if m.Endpoint != c.members[i].Client || m.ID == 0 || m.Version == "" || m.Leader == 0 || m.Term == 0 || m.Learner ||
			m.DBBytes == 0 || m.InUseBytes == 0 || m.QuotaBytes != quota || m.Err != nil {
			t.Errorf("member %d is %+v", i, m)
		}
	}
}

func TestAReportNamesAlarmsUntilTheyEnd(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	r := c.replica("a")
	alarms := pb.NewMaintenanceClient(c.client().ActiveConnection())
	report := awaitCauses(t, r)
	for alarm, cause := range map[pb.AlarmType]members.Cause{
		pb.AlarmType_NOSPACE: members.NoSpace, pb.AlarmType_CORRUPT: members.Corrupt,
	} {
		change := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: report.Members[0].ID, Alarm: alarm}
		if _, err := alarms.Alarm(limited(t), change); err != nil {
			t.Fatalf("raise the alarm %s: %v", alarm, err)
		}
		if alarmed := awaitCauses(t, r, cause); !slices.Equal(alarmed.Members[0].Alarms, []members.Cause{cause}) {
			t.Errorf("the member is %+v", alarmed.Members[0])
		}
		change.Action = pb.AlarmRequest_DEACTIVATE
		if _, err := alarms.Alarm(limited(t), change); err != nil {
			t.Fatalf("end the alarm %s: %v", alarm, err)
		}
		awaitCauses(t, r)
	}
}

func TestAReportNamesMembersThatAreAwayAndTheLossOfQuorum(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	r := c.replica("a")
	awaitCauses(t, r)
	c.members[2].kill()
	report := awaitCauses(t, r, members.Unreachable)
	if report.Members[2].Err == nil || report.Members[0].Err != nil {
		t.Errorf("the members are %+v", report.Members)
	}
	c.members[1].kill()
	awaitCauses(t, r, members.NoLeader, members.Unreachable, members.NoQuorum)
	c.members[1].start()
	c.members[2].start()
	awaitCauses(t, r)
}

func TestAReportNamesTheRefusalsOfAccessControl(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	r := c.replica("a")
	awaitCauses(t, r)
	admin := c.client()
	if _, err := admin.UserAdd(limited(t), "root", "secret"); err != nil {
		t.Fatalf("add a user: %v", err)
	}
	if _, err := admin.UserGrantRole(limited(t), "root", "root"); err != nil {
		t.Fatalf("grant a role: %v", err)
	}
	if _, err := admin.AuthEnable(limited(t)); err != nil {
		t.Fatalf("enable access control: %v", err)
	}
	awaitCauses(t, r, members.Denied)
}

func TestAReportNamesAClusterOfTwo(t *testing.T) {
	t.Parallel()
	c, other := startCluster(t, 1), startCluster(t, 1)
	awaitCauses(t, c.replica("a", c.members[0], other.members[0]), members.TwoClusters)
}

func TestAReportSaysWhenTheCertificateEnds(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	file := filepath.Join(t.TempDir(), "client.crt")
	r := c.replicaWith(members.Options{Replica: members.Replica{ID: "a"}, CertFile: file})
	awaitCauses(t, r, members.Certificate) // there is none
	for _, end := range []time.Time{time.Now().Add(time.Hour), time.Now().Add(-time.Hour)} {
		end = end.UTC().Truncate(time.Second)
		writeCertificate(t, file, end)
		var want []members.Cause
		if end.Before(time.Now()) {
			want = append(want, members.Certificate)
		}
		if report := awaitCauses(t, r, want...); !report.CertificateEnds.Equal(end) {
			t.Errorf("the certificate ends at %v, want %v", report.CertificateEnds, end)
		}
	}
}

func writeCertificate(t *testing.T, file string, end time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-24 * time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatalf("make a certificate: %v", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatalf("write a certificate: %v", err)
	}
}
