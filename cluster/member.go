package cluster

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// State says what a member does with work.
type State string

const (
	// Active: the member takes work.
	Active State = "active"
	// Draining: the member finishes what it has and owns nothing new.
	Draining State = "draining"
	// Offline: the member has left.
	Offline State = "offline"
)

// DefaultCapacity is the capacity of a member that does not say.
const DefaultCapacity = 100

// Member is one node of a region, as it presents itself to the others. The names of its JSON form are
// those of the wire: heartbeats and GET /health.
type Member struct {
	// ID names the node for as long as its disk lives. At most maxID visible ASCII characters
	// without "," and "=".
	ID string `json:"id"`
	// Address is the base URL by which the other members reach the node, without a path.
	Address string `json:"address,omitempty"`
	// Region is the code of the region; empty if there is only one.
	Region string `json:"region,omitempty"`
	// State is what the node does with work. A state that is not known, or none, owns nothing.
	State State `json:"state,omitempty"`
	// Capacity is how many active tenants the node wants; it is also the node's weight among the
	// others. 0 means DefaultCapacity.
	Capacity int `json:"user_capacity,omitempty"`
	// ActiveTenants is how many tenants the node works for, as last heard.
	ActiveTenants int `json:"active_users,omitempty"`
	// Version is the version of the node's program; it is only shown.
	Version string `json:"version,omitempty"`
}

const (
	maxID      = 128
	maxAddress = 512
)

// IDRule is what the id of a node must be.
const IDRule = `1 to 128 visible ASCII characters without "," and "="`

// CheckID says what is wrong with the id of a node; nil if nothing is.
func CheckID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("node id must have 1 to %d characters, got %d", maxID, len(id))
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || c == ',' || c == '=' {
			return fmt.Errorf(`node id must be visible ASCII without "," and "=", got %q`, id)
		}
	}
	return nil
}

// ParseAddress returns the address of a member in the one form in which it is kept: a URL of scheme http or https with a
// host that others can call and nothing behind it, not even one slash or the port that goes without saying.
func ParseAddress(s string) (string, error) {
	if len(s) > maxAddress {
		return "", fmt.Errorf("node address must have at most %d characters, got %d", maxAddress, len(s))
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("node address must be a URL, got %q", withoutUser(s))
	}
	host := strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil { // whose zone is as it is
		host = ip.Unmap().String()
	}
	port, errPort := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("node address must begin with http:// or https://, got %q", withoutUser(s))
	case host == "":
		return "", fmt.Errorf("node address must have a host, got %q", withoutUser(s))
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("node address must have nothing but scheme, host and port, got %q", withoutUser(s))
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"), u.Port() != "" && (errPort != nil || port == 0):
		return "", fmt.Errorf("node address must have a port from 1 to 65535, or none, got %q", s)
	case !Callable(host):
		return "", fmt.Errorf("node address must have a host that other nodes can call, got %q", s)
	}
	return u.Scheme + "://" + hostPort(u.Scheme, host, port), nil
}

// Callable reports whether a host, a name or an IP address without brackets, can be that of one node for all others: not
// an address that stands for all of a machine's or for several machines, and no name that a host cannot have.
func Callable(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return !ip.IsUnspecified() && !ip.IsMulticast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
	}
	return !strings.ContainsFunc(host, func(c rune) bool { // one that is not in ASCII is written in it when it is called
		return c < 0x80 && !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", c)
	})
}

// hostPort is how a URL goes on after a scheme. The port that is meant without one is not said.
func hostPort(scheme, host string, port uint64) string {
	if strings.Contains(host, ":") {
		host = "[" + strings.ReplaceAll(host, "%", "%25") + "]"
	}
	if port == 0 || scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		return host
	}
	return host + ":" + strconv.FormatUint(port, 10)
}

// withoutUser is an address as it may be shown: what stands before the host may be a password.
func withoutUser(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	scheme, _, ok := strings.Cut(address[:at], "://")
	if !ok {
		return "..." + address[at:]
	}
	return scheme + "://..." + address[at:]
}

// Check says what makes a member unusable; nil if nothing does. What a provider hears of another node
// goes through it before it enters a roster.
func (m Member) Check() error {
	if err := CheckID(m.ID); err != nil {
		return err
	}
	if _, err := ParseAddress(m.Address); err != nil {
		return fmt.Errorf("member %s: %w", m.ID, err)
	}
	if m.Capacity < 0 || m.ActiveTenants < 0 {
		return fmt.Errorf("member %s: capacity and active tenants must not be negative, got %d and %d", m.ID, m.Capacity, m.ActiveTenants)
	}
	return nil
}

// Weight is the member's share of the tenants in proportion to the others' weights; at least 1.
func (m Member) Weight() int {
	if m.Capacity <= 0 {
		return DefaultCapacity
	}
	return m.Capacity
}

// sameButLoad reports whether nothing but the load differs.
func (m Member) sameButLoad(other Member) bool {
	m.ActiveTenants = other.ActiveTenants
	return m == other
}
