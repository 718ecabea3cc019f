package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Nodes tell all others the same address, so who calls is not known from where. The kernel knows: it tells the
// inode of the caller's end of a connection (sock_diag(7)), and which process has that open (proc_pid_fd(5)).

// Sizes and places in the messages of sock_diag(7) and netlink(7).
const (
	headerSize  = unix.NLMSG_HDRLEN
	requestSize = headerSize + 56 // inet_diag_req_v2
	inodeAt     = headerSize + 68 // of inet_diag_msg
	answerSize  = headerSize + 72
	diagByID    = 20 // SOCK_DIAG_BY_FAMILY
)

var errNoSocket = errors.New("no such socket")

// callerInode returns the inode of the other end of a connection on this machine that was accepted here.
func callerInode(accepted net.Conn) (uint32, error) {
	local, errL := netip.ParseAddrPort(accepted.RemoteAddr().String()) // as the caller sees it
	remote, errR := netip.ParseAddrPort(accepted.LocalAddr().String())
	if err := errors.Join(errL, errR); err != nil {
		return 0, err
	}
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	defer unix.Close(s)
	if err := unix.Sendto(s, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask the kernel for a socket: %w", err)
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, buf, 0)
	if err != nil {
		return 0, fmt.Errorf("socket that the kernel tells of: %w", err)
	}
	return diagInode(buf[:n])
}

// diagRequest asks for the IPv4 socket of TCP with these two ends.
func diagRequest(local, remote netip.AddrPort) []byte {
	b := make([]byte, requestSize)
	binary.NativeEndian.PutUint32(b, requestSize)
	binary.NativeEndian.PutUint16(b[4:], diagByID)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	r := b[headerSize:]
	r[0], r[1] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0)) // in any state
	id := r[8:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:], local.Addr().AsSlice())
	copy(id[20:], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // no cookie
	return b
}

func diagInode(answer []byte) (uint32, error) {
	if len(answer) < answerSize || binary.NativeEndian.Uint16(answer[4:]) != diagByID {
		return 0, errNoSocket // it has gone
	}
	return binary.NativeEndian.Uint32(answer[inodeAt:]), nil
}

// sockets returns the inodes of the sockets that a process has open; none if there is no such process.
func sockets(pid int) []uint32 {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []uint32
	for _, f := range files {
		name, _ := os.Readlink(filepath.Join(dir, f.Name())) // empty if it is closed meanwhile
		number, _ := strings.CutPrefix(name, "socket:[")
		if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 32); err == nil {
			list = append(list, uint32(inode))
		}
	}
	return list
}
