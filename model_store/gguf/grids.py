"""The grids of GGUF's formats IQ1 to IQ3: the points of which a weight and its neighbours are one, by its number.

No rule makes them (iq1s_grid and others, ggml-common.h in https://github.com/ggml-org/ggml): a bit tells of each point
that all values give whether the grid has it, the first coordinate changing first.
"""

import zlib
from base64 import b85decode
from collections.abc import Sequence

import numpy as np

PACKED = (
    "c-nPW&x;(#6@FE`BDEb!)U3Oeu|TAES;3%_O{^S4^}1VHEmGVqb$MmS6UAWTQ$PpF7onsz>=LoDVeMEEfh3Fu2{ua($v+Sh$RUu6)~q7}5h0Kqa>"
    "~i%<T&qDb<fONa%*O%x?jETeeXxVSK50pxUcN$wwb(_yoptD#nd>s9}O~Go;=tcE1O}j4<=K;uT}4fD;L}&$f0yEX39v?+U$vFK<d>I^Sm;mrYD2"
    "@xVXA!Ce2GPE3DpvdL?m%IrphCaSUWDb}=Rb%fFgm3=_P3<AdUcd*fS=H-=BLYbW#J<v(9LZ*#~osfJ}{4b+#uQv5B)g92{L+pdaD-Vnpx40k4*r"
    "|&Cc|CqdiOBtRf8U>nPMFU%#lSwAjqD7Mx#|s;OQk(m<K4K;kn4yBzZJ0D4Wl&|c**Y>9lgn`+Z!NkSaP9r-Mw|?{TyhMu(%3k+OOU~$P#Z^U_cH"
    "De^NsKPYk&XU<UHMfd%s$Kp~l4}8CSJ&_}n*&y!iAr^|i!;g*xd03bkJp@lc8ELOHy3a`?l?g*qrqRmK|yY+bM~Ts^gM^S=kl_21t5!Q-p{`QK;n"
    "{BC&jr+@$F=bycGb?x4ds$9EU*Or{Qm^{jEd_G*c_Xm-led+isNqOo3$YpcRt%1$z@@@P{_Q66HLjf;}KS5>;e6w=yiGBN4r7m0Xmw#XX>cx9H)7"
    "Rb2c=yK-Qz$tOXqqj|+|P&kg(bBk`cM^T?d`!b1#0t5=CkZDcK;~Xe3r+`aM?6yl`L}Tfho+Z)w?I16M$uQ?zw!^EVI^5g}YQyZ<fZ@wSbbfHWTo"
    "G=dhQReM*5VTy=EcmNl8kgezkc!`+_E)vZVINmC6!zDO>g`uYur>+$jLt0V7-(o!Y7dX@^wI(OhUio2>XMx&~7$gYJfm%c>reh)4=YaW9B&2pRNF"
    "_m<7<`o10vQ-Xoqp*-I?!@;7aOdL**G6JJ!`_PN#ica#gj}`^_(>f*;+=tsDXj!y1jHbKR{#n{mIIL!^ggh-q^|<10^UOA1-%BmF?_rhLVLvqk+z"
    "u}jHQKOExK&jh(-`((8BiXO@ynoEMgvc_sFY@7MgEu8IXdK>h^)iNGiJBrqyX>{0R&U9KHfQMbSVcmjQ!%514z)U!dQHOmyn0g_+BMb_R~N3yS|@"
    "&vP`^tC&N&GmgT}A)4tPgJ#BA%!~b%`E9lpiP<(!GM{-FKhyU)AHH~TG}}}dF;$!b__7f*C%r`<b9>0Gc?&c5EOud-=M7y9#WS@IUHB!kDU&Zo^B"
    "L=BUgk@;o!;A<?Cp;CsL}52jdsVQK?>1i1mio9rXX2#I*l~Q-ElKWwI-EuBM0=;0PO89M>>_X-c5l;BLG^Y3@p=VZ$f}9@_-GbvXK*3<P9EhECZl"
    "_!k8M`<zPU74TCQGd)*Ok0_y+>T8`MNWWb<G8#Rf>)7?4<)6RxW$KHzUFj)rd1#1SE*{{}R&<!->aR<nO(q3hd$^g(%pxAS|Sd^xo2GeOg+oq!~L"
    "wLQ*cVIAOD8p)(!z(#FX;2vjcK)k58Vx^B`F?yTiA{*1WLmPB69gaG_32Y)*x^oh`71pXX#SNlxSXEWj4Ssz;5zK}KVwL@qlOD0<f_F8YtK~kGL5"
    "_gv&(~PEqye6W>U{0o!iiG<RKl+lZ@tw&e-a?hqBu`7`GPFSuD3ZD|%W<%~NlLC*KU(6tt`dv%e{vajtT;b8#<mbWCwYoG4Y%bfjt96M{v~sk+LX"
    "E9i(tB4AO0+<shAu@=q#I?0hlmZpOev2PbvxvC=dq*o~CO(X?~!jw6k(5N-lGe8!3z#=v(bS+oqETTygMDz>=c9Td|u2<GbGeBjft%H_;UT(ONB6"
    "~3p*lR~XP^NCrB5FSgPW!Q+A4v9u=j!NGNztfVh9%8n0;DY@DmYN34I(-sv<$gds>F+^d3r6Ll{SdH8IA^P*{59Q0o2)=1B8~mcbP>zxaI)c#%uv"
    "=%3y&!Zd@Bf3KhHTyMJ#UP<YvNq>B&@hT_3L*RtCd?&69{LYNZbK%N*@Nvj2vWl{4vY3j0Jk!TsRRv4D0Z`!s)j%jIPm$h0xDIyH|Zrl`4$FL`6Z"
    "kJY=>16K0G@VIQy($X_nl{1ylu+=K5_&D5f$Y#Rq>GA$x#I%Im+dJN!gONm1k$@FiU`+{`h2t*DLw||C%l&Sp=^wxYLs0=vi@Zp`^c+EMNOYN0EQ"
    "l*BJ@op0*%~3&`!Gn&jp;NB=kU1Utw6a&U&IB;R)z7N!_$c;hZJfvryL;6!#A<^GGrNs<%hoS8006OsA12DRKAX&>LqO-9dmmih)v?LtUoNqtZ;b"
    "b09k!vu3&8uBDH&)@e%!8aeIIY({%<DPeZ*Y&9F%nH)2IcR)2=`_t+CY_-#Y(2@^u;>t8HsqPx>Dx2u&hPNY{g>Js#!?ExFI*VL{zkKg}Y#UrX^4"
    "iMU$iafZb(L;Iye8t&0@8SCq9v-eB{)TJ6y1pKIXlPRe;vp0Kpq`zE>H>RfxI$WfHjFf!~Q0PU92`rQqxA3ddhmo=P5!uF-m>(^@k_aIy}F=u$Yf"
    "Xjyp=n!r*o;w`fSEXci=$ET!F)&=;U1Uj;dT27)}1>XKUhNT9M?<QPpZNmS`M>a9NgS62vJCce5M>#KAk5a5fD>n92YKGGi|D<)EBRIEzp1iPqVE"
    "ApkwaqIhTiXph7okZGddIbr31o}frw^q^TU8B%!MfNF?n~-6nWjI&SUo|%iyX-6L3z+^HpJ~Z6ag}D|W|t^Rq=bcT0@^l#EtcMiX#CMhi)xg62i{"
    "rH?4abBajVF5t021>jE9Qg|5=vjdj"
)
BITS = np.unpackbits(np.frombuffer(zlib.decompress(b85decode(PACKED)), np.uint8))
"""Of all grids, one after the other."""


def grid(start: int, values: Sequence[int], size: int) -> np.ndarray:
    """The points (n, size) int8 of the grid whose bits begin there."""
    base = len(values)
    places = np.flatnonzero(BITS[start : start + base**size])
    return np.asarray(np.array(values, np.int8)[places[:, None] // base ** np.arange(size) % base])


IQ1 = grid(0, (-1, 0, 1), 8)
IQ2_XXS, IQ2_XS, IQ2_S = (grid(number * 3**8, (8, 25, 43), 8) for number in (1, 2, 3))
IQ3_XXS = grid(4 * 3**8, (4, 12, 20, 28, 36, 44, 52, 62), 4)
IQ3_S = grid(4 * 3**8 + 8**4, (1, 3, 5, 7, 9, 11, 13, 15), 4)
