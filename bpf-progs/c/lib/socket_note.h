/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What sockets asked for, by the backend that they were given. A socket has its notes in the set that its
 * number leads to: that takes no memory and no lock. They are free again when it is closed; some sockets of the
 * kernel's own are closed unseen, as is any while no program looks. So whoever finds a set full has a place in it,
 * and what was there moves to the maps by socket and backend, where notes grow old. Earlier programs had all
 * notes there. */
#pragma once

#include "lb_maps.h"
#include "end.h"

union reverse_sk_key {
	struct reverse_sk4_key v4;
	struct reverse_sk6_key v6;
};

always_inline struct socket_set *socket_set(__u64 socket)
{
	__u32 index = socket / SOCKET_NEIGHBOURS % SOCKET_SETS;

	return bpf_map_lookup_elem(&volvox_sockets, &index);
}

/* Whose a note of a set is. */
always_inline __u64 note_socket(const struct socket_set *set, int i)
{
	return *(const volatile __u64 *)&set->sockets[i];
}

/* Gives a note to another socket, or to none; fails if it is not that one's any more. */
always_inline bool note_pass(struct socket_set *set, int i, __u64 from, __u64 to)
{
	return __sync_val_compare_and_swap(&set->sockets[i], from, to) == from;
}

always_inline bool note_is_of(const struct socket_set *set, int i, __u64 socket, const struct end *backend, int family)
{
	const struct socket_note *note = &set->notes[i];

	return note_socket(set, i) == socket && note->backend_port == backend->port && note->family == family &&
	       address_equal((const union address *)note->backend, &backend->address, family);
}

/* Writes a note that was claimed. */
always_inline void note_write(struct socket_set *set, int i, __u64 socket, const struct end *service,
			      const struct end *backend, __be16 rev_nat, int family)
{
	struct socket_note *note = &set->notes[i];

	__builtin_memcpy(note->backend, &backend->address, 16);
	__builtin_memcpy(note->service, &service->address, 16);
	note->backend_port = backend->port;
	note->service_port = service->port;
	note->rev_nat = rev_nat;
	note->family = family;
	/* What looks for the socket's note took turns with it since: at the socket's lock, or at the queue from
	 * which it has an answer. So this needs no order among processors. The agent, which took none, only
	 * believes what the socket itself confirms. */
	keep_apart();
	*(volatile __u64 *)&set->sockets[i] = socket;
}

/* The place of a set that a socket takes before others: neighbours do not want the same. */
always_inline __u32 note_place(__u64 socket)
{
	__u32 turn = socket / (SOCKET_NEIGHBOURS * SOCKET_SETS);
	__u32 place = turn * SOCKET_NEIGHBOURS + socket % SOCKET_NEIGHBOURS;

	/* Clang joins the two by OR, of which the verifier knows no bounds before Linux 6.10. */
	opaque(place);
	return place % SOCKET_NOTES;
}

/* Writes a note at a place that was free, if there was one. Returns whether it is still. */
always_inline bool note_add(struct socket_set *set, __u32 i, __u64 socket, const struct end *service,
			    const struct end *backend, __be16 rev_nat, int family)
{
	if (i >= SOCKET_NOTES || !note_pass(set, i, 0, NOTE_CLAIMED))
		return false;
	note_write(set, i, socket, service, backend, rev_nat, family);
	return true;
}

enum noted {
	NOTED = 0,
	/* Not in the set. */
	NOTED_NOT = 1,
	/* In the set, and for another service. */
	NOTED_OTHERWISE = 2,
};

/* Frees the note of a socket and a backend. */
always_inline void note_drop(struct socket_set *set, __u64 socket, const struct end *backend, int family)
{
	for (int i = 0; i < SOCKET_NOTES; i++) {
		if (note_is_of(set, i, socket, backend, family))
			note_pass(set, i, socket, 0);
	}
}

/* What a set says of a socket and a backend. Where nothing, `free` is a place without a note, if there is one. */
always_inline enum noted note_says(struct socket_set *set, __u64 socket, const struct end *service,
				   const struct end *backend, __be16 rev_nat, int family, __u32 *free)
{
	*free = SOCKET_NOTES;
	for (int left = SOCKET_NOTES; left > 0; left--) {
		const struct socket_note *note;
		__u32 i = left - 1;

		/* Else clang counts a pointer down that begins below the set, which Linux 7.3 refuses. */
		opaque(i);
		i %= SOCKET_NOTES;
		note = &set->notes[i];
		if (!note_socket(set, i))
			*free = i;
		if (!note_is_of(set, i, socket, backend, family))
			continue;
		return note->service_port == service->port && note->rev_nat == rev_nat &&
				       address_equal((const union address *)note->service, &service->address, family)
			       ? NOTED
			       : NOTED_OTHERWISE;
	}
	if (!note_socket(set, note_place(socket)))
		*free = note_place(socket);
	return NOTED_NOT;
}

always_inline void reverse_sk_key(union reverse_sk_key *key, __u64 socket, const struct end *backend, int family)
{
	if (family == FAMILY_IPV4) {
		key->v4 = (struct reverse_sk4_key){
			.cookie = socket,
			.address = backend->address.v4,
			.port = backend->port,
		};
	} else {
		key->v6 = (struct reverse_sk6_key){.cookie = socket, .port = backend->port};
		__builtin_memcpy(key->v6.address, &backend->address, 16);
	}
}

/* Whether the map says so already. */
always_inline bool reverse_sk_says(const union reverse_sk_key *key, const struct end *service, __be16 rev_nat,
				   int family)
{
	union address before;

	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row *row = bpf_map_lookup_elem(&cilium_lb4_reverse_sk, key);

		return row && row->address == service->address.v4 && row->port == service->port &&
		       row->rev_nat == rev_nat;
	} else {
		struct reverse_sk6_row *row = bpf_map_lookup_elem(&cilium_lb6_reverse_sk, key);

		if (!row)
			return false;
		__builtin_memcpy(&before, row->address, 16);
		return address_equal(&before, &service->address, family) && row->port == service->port &&
		       row->rev_nat == rev_nat;
	}
}

/* Writes the row of a map, if it is not there: looking first is cheaper by far. */
always_inline long reverse_sk_put(__u64 socket, const struct end *service, const struct end *backend,
				  __be16 rev_nat, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));

	reverse_sk_key(&key, socket, backend, family);
	if (reverse_sk_says(&key, service, rev_nat, family))
		return 0;
	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row row = {
			.address = service->address.v4,
			.port = service->port,
			.rev_nat = rev_nat,
		};

		return bpf_map_update_elem(&cilium_lb4_reverse_sk, &key, &row, BPF_ANY);
	} else {
		struct reverse_sk6_row row = {.port = service->port, .rev_nat = rev_nat};

		__builtin_memcpy(row.address, &service->address, 16);
		return bpf_map_update_elem(&cilium_lb6_reverse_sk, &key, &row, BPF_ANY);
	}
}

/* What is noted at a place of a set, as a row of a map. */
subprogram long note_move(__u64 socket, const struct socket_note *note)
{
	struct end service = {}, backend = {};

	if (!note)
		return -1;
	__builtin_memcpy(&service.address, note->service, 16);
	__builtin_memcpy(&backend.address, note->backend, 16);
	service.port = note->service_port;
	backend.port = note->backend_port;
	if (note->family == FAMILY_IPV4)
		return reverse_sk_put(socket, &service, &backend, note->rev_nat, FAMILY_IPV4);
	if (note->family == FAMILY_IPV6)
		return reverse_sk_put(socket, &service, &backend, note->rev_nat, FAMILY_IPV6);
	return 0;
}

/* Writes a note in place of another one, of which the map knows from then on. Returns whether it did. */
always_inline bool note_replace(struct socket_set *set, __u64 socket, const struct end *service,
				const struct end *backend, __be16 rev_nat, int family)
{
	__u32 i = note_place(socket);
	__u64 former = note_socket(set, i);

	if (!former || former == NOTE_CLAIMED || note_move(former, &set->notes[i]) ||
	    !note_pass(set, i, former, NOTE_CLAIMED))
		return false;
	note_write(set, i, socket, service, backend, rev_nat, family);
	return true;
}

/* Notes what a socket asked for, by the backend that it was given. */
always_inline long socket_note(struct socket_set *set, __u64 socket, const struct end *service,
			       const struct end *backend, __be16 rev_nat, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));
	enum noted said;
	__u32 free;
	long error;

	/* The map has room for all of them. */
	if (!set)
		return -1;
	said = note_says(set, socket, service, backend, rev_nat, family, &free);
	if (said == NOTED ||
	    (said == NOTED_NOT && note_add(set, free, socket, service, backend, rev_nat, family)))
		return 0;
	reverse_sk_key(&key, socket, backend, family);
	if (said == NOTED_NOT && !reverse_sk_says(&key, service, rev_nat, family) &&
	    note_replace(set, socket, service, backend, rev_nat, family))
		return 0;
	error = reverse_sk_put(socket, service, backend, rev_nat, family);
	/* It asked for another service before: from now on it is known by the row. */
	if (!error && said == NOTED_OTHERWISE)
		note_drop(set, socket, backend, family);
	return error;
}

/* Replaces a backend by the service that the socket asked for. Returns whether there was one. */
always_inline bool socket_recall(__u64 socket, struct end *end, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));
	struct socket_set *set = socket_set(socket);

	for (int i = 0; set && i < SOCKET_NOTES; i++) {
		const struct socket_note *note = &set->notes[i];
		struct end service = {.family = family};

		if (!note_is_of(set, i, socket, end, family))
			continue;
		__builtin_memcpy(&service.address, note->service, 16);
		service.port = note->service_port;
		/* Unless it was given away meanwhile. */
		if (note_socket(set, i) != socket)
			break;
		*end = service;
		return true;
	}
	reverse_sk_key(&key, socket, end, family);
	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row *row = bpf_map_lookup_elem(&cilium_lb4_reverse_sk, &key);

		if (!row)
			return false;
		end->address.v4 = row->address;
		end->port = row->port;
	} else {
		struct reverse_sk6_row *row = bpf_map_lookup_elem(&cilium_lb6_reverse_sk, &key);

		if (!row)
			return false;
		__builtin_memcpy(&end->address, row->address, 16);
		end->port = row->port;
	}
	return true;
}

/* Forgets what a socket asked for. Of the maps' rows only that of the backend it was connected to, if that is
 * where it was noted: they are of no use any more, and grow old. */
always_inline void socket_forget(__u64 socket, const struct end *backend, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));
	struct socket_set *set = socket_set(socket);
	bool was_in_set = false;

	if (!set)
		return;
	for (int i = 0; i < SOCKET_NOTES; i++) {
		if (note_socket(set, i) != socket)
			continue;
		was_in_set |= note_is_of(set, i, socket, backend, family);
		note_pass(set, i, socket, 0);
	}
	if (was_in_set)
		return;
	reverse_sk_key(&key, socket, backend, family);
	if (family == FAMILY_IPV4)
		bpf_map_delete_elem(&cilium_lb4_reverse_sk, &key);
	else
		bpf_map_delete_elem(&cilium_lb6_reverse_sk, &key);
}
