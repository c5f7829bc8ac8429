package members

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// inspectFor is how long Inspect waits for a member.
const inspectFor = 2 * time.Second

// Cause is the name of what can be wrong with a cluster.
type Cause string

// The causes.
const (
	NoSpace     Cause = "NOSPACE"     // the quota of a database is used up: no member takes writes
	Corrupt     Cause = "CORRUPT"     // the members' databases differ: no member takes requests
	NoLeader    Cause = "no leader"   // a member knows no leader: it takes no writes
	NoQuorum    Cause = "no quorum"   // a linearizable read got no answer
	Unreachable Cause = "unreachable" // a member does not answer
	Denied      Cause = "denied"      // by etcd's access control
	TwoClusters Cause = "two clusters"
	Certificate Cause = "certificate" // the client's has expired, or cannot be read
)

// Problem is one thing that is wrong.
type Problem struct {
	Cause  Cause
	Detail string // with the member, if it is one's
}

// Member is what one member of etcd says about itself.
type Member struct {
	Endpoint string
	ID       uint64
	Version  string
	Leader   uint64 // the ID of the leader that it knows; 0: none
	Term     uint64 // of raft
	Revision int64  // that it has reached
	Learner  bool
	Alarms   []Cause // NoSpace, Corrupt: of any member, as this one knows them
	// DBBytes is the size of its database, of which InUseBytes are in use; QuotaBytes is how large it
	// may become, 0: etcd is older than 3.6 and does not say.
	DBBytes, InUseBytes, QuotaBytes int64
	// Err is why it did not answer; then nothing else is known.
	Err error
}

// Report is the state of a cluster.
type Report struct {
	At        time.Time // when it was asked for
	ClusterID uint64    // 0: no member has answered
	Members   []Member  // in the order of the client's endpoints
	// Quorum is why a linearizable read failed; nil: a majority of the members works together.
	Quorum error
	// CertificateEnds is until when the client's certificate is valid; zero: there is none.
	CertificateEnds time.Time
	Problems        []Problem
}

// Inspect asks every endpoint of the client for its state, and reads a key. It takes no longer than
// two seconds, and opens a connection to each member: it is for every ten seconds, not for every
// request. It costs etcd no write. What is wrong is in the Report; the error is ctx's cause.
func (m *Members) Inspect(ctx context.Context) (Report, error) {
	endpoints := m.client.Endpoints()
	report := Report{At: time.Now(), Members: make([]Member, len(endpoints))}
	clusters := make([]uint64, len(endpoints))
	inspection, cancel := context.WithTimeout(ctx, inspectFor)
	defer cancel()
	var wg sync.WaitGroup
	// They are Inspect's, and end with inspection.
	for i, endpoint := range endpoints {
		wg.Go(func() { report.Members[i], clusters[i] = m.inspect(inspection, endpoint) })
	}
	wg.Go(func() { _, report.Quorum = m.client.Get(inspection, m.leaderKey()) })
	wg.Wait()
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	for i, member := range report.Members {
		report.Problems = append(report.Problems, member.problems()...)
		switch id := clusters[i]; {
		case report.ClusterID == 0:
			report.ClusterID = id
		case id != 0 && id != report.ClusterID:
			report.add(TwoClusters, fmt.Sprintf("%s is of cluster %x, others are of %x", member.Endpoint, id, report.ClusterID))
		}
	}
	switch {
	case denied(report.Quorum):
		report.add(Denied, report.Quorum.Error())
	case report.Quorum != nil:
		report.add(NoQuorum, report.Quorum.Error())
	}
	m.inspectCertificate(&report)
	return report, nil
}

func (r *Report) add(cause Cause, detail string) {
	r.Problems = append(r.Problems, Problem{cause, detail})
}

// inspect asks one member. The client's own Status tries again until its time is over, and then does
// not say why.
func (m *Members) inspect(ctx context.Context, endpoint string) (_ Member, cluster uint64) {
	member := Member{Endpoint: endpoint}
	conn, err := m.client.Dial(endpoint)
	if err != nil {
		member.Err = err
		return member, 0
	}
	defer func() { _ = conn.Close() }() // nothing is under way
	status, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		member.Err = clientv3.ContextError(ctx, err)
		return member, 0
	}
	member.ID, member.Version, member.Leader = status.Header.MemberId, status.Version, status.Leader
	member.Revision = status.Header.Revision
	member.Term, member.Learner = status.RaftTerm, status.IsLearner
	member.DBBytes, member.InUseBytes, member.QuotaBytes = status.DbSize, status.DbSizeInUse, status.DbSizeQuota
	for _, alarm := range []Cause{NoSpace, Corrupt} {
		for _, text := range status.Errors { // "memberID:… alarm:NOSPACE"
			if strings.Contains(text, string(alarm)) {
				member.Alarms = append(member.Alarms, alarm)
				break
			}
		}
	}
	return member, status.Header.ClusterId
}

// problems returns what is wrong with a member.
func (m Member) problems() []Problem {
	switch {
	case denied(m.Err):
		return []Problem{{Denied, m.Endpoint + ": " + m.Err.Error()}}
	case m.Err != nil:
		return []Problem{{Unreachable, m.Endpoint + ": " + m.Err.Error()}}
	}
	var all []Problem
	if m.Leader == 0 {
		all = append(all, Problem{NoLeader, m.Endpoint})
	}
	for _, alarm := range m.Alarms {
		all = append(all, Problem{alarm, fmt.Sprintf("%s: its database has %d bytes, %d of them in use; the quota is %d",
			m.Endpoint, m.DBBytes, m.InUseBytes, m.QuotaBytes)})
	}
	return all
}

// denied reports whether etcd's access control is the reason.
func denied(err error) bool {
	for _, reason := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty,
		rpctypes.ErrAuthOldRevision,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// inspectCertificate reads the certificate's file, which may have been replaced.
func (m *Members) inspectCertificate(report *Report) {
	if m.o.CertFile == "" {
		return
	}
	ends, err := certificateEnd(m.o.CertFile)
	report.CertificateEnds = ends
	switch {
	case err != nil:
		report.add(Certificate, err.Error())
	case time.Now().After(ends):
		report.add(Certificate,
			fmt.Sprintf("the client certificate %s has expired at %s", m.o.CertFile, ends.Format(time.RFC3339)))
	}
}

// certificateEnd returns until when the first certificate of a file is valid.
func certificateEnd(file string) (time.Time, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the client certificate: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}, fmt.Errorf("read the client certificate %s: %w", file, err)
		}
		return cert.NotAfter, nil
	}
	return time.Time{}, fmt.Errorf("the file %s has no certificate", file)
}

// defaultQuota is etcd's own, which a member before 3.6 does not report.
const defaultQuota = 2 << 30

// fullest returns the largest share of its quota that a database has in use; 0: no member answers.
func (m *Members) fullest(ctx context.Context) float64 {
	ctx, cancel := context.WithTimeout(ctx, inspectFor)
	defer cancel()
	most := 0.0
	for _, endpoint := range m.client.Endpoints() {
		member, _ := m.inspect(ctx, endpoint)
		quota := member.QuotaBytes
		if quota <= 0 {
			quota = defaultQuota
		}
		most = max(most, float64(member.InUseBytes)/float64(quota))
	}
	return most
}
