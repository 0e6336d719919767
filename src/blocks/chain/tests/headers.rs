use crate::blocks::chain::{Family, header};

#[test]
fn invalid_header_is_reported_with_offset() {
    let mut block = [0; 200];
    block[24] = 33;
    let message = |block: &[u8]| header(Family::Steem, 0, block).expect_err("no header").to_string();
    assert_eq!(message(&block), "the witness's name at byte 24 of the block claims 33, the limit is 32");
    block[24..27].copy_from_slice(b"\x02a\n");
    assert_eq!(message(&block), "byte 24 of the block: the witness is no name of printable characters");
    block[24..27].copy_from_slice(b"\x02aa");
    block[47] = 17;
    assert_eq!(message(&block), "the header extensions at byte 47 of the block claims 17, the limit is 16");
    block[47..49].copy_from_slice(b"\x01\x03");
    assert_eq!(message(&block), "byte 48 of the block: 3 where a header extension of type 0 to 2 must be");
    block[47] = 0;
    block[..4].copy_from_slice(&[0xff; 4]);
    assert_eq!(message(&block), "the block's parent has the number 4294967295: there is no number for the block");
}
